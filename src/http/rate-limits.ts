import type { FastifyReply, FastifyRequest } from 'fastify';
import { BursarError } from '../domain/errors.ts';
import { type RatePolicy, type Spending, spend } from '../domain/rate-limit.ts';
import type { Caller } from '../services/actor.ts';

export interface LimitSettings {
  windowMs: number;
  userRequests: number;
  tokenRequests: number;
  addressRequests: number;
  uploads: number;
}

/**
 * Limits that keep one caller's loop from starving the others. Each instance counts for itself, in memory: they are
 * a guard, not an account. Every method throws `too_many_requests` when there is no more.
 */
export interface RateLimits {
  /** A request with a valid token: against the limits of its user and of the token. */
  caller(reply: FastifyReply, caller: Pick<Caller, 'userId' | 'tokenHash'>): void;
  /** The same, answering with the headers that tell of it; null, and nothing spent, when there is no more. */
  spend(caller: Pick<Caller, 'userId' | 'tokenHash'>): Record<string, string> | null;
  /** A request without one: against the limit of the address that it comes from. Probes have one of their own. */
  stranger(request: FastifyRequest, reply: FastifyReply, kind?: 'address' | 'probe'): void;
  /** A submission that begins to arrive; to be called back when it is over. */
  upload(userId: string): () => void;
}

interface Spendable {
  policy: RatePolicy;
  key: string;
}

export function createRateLimits(settings: LimitSettings, now: () => number): RateLimits {
  const { windowMs, uploads } = settings;
  const user = { name: 'user', quota: settings.userRequests, windowMs };
  const token = { name: 'token', quota: settings.tokenRequests, windowMs };
  const address = { name: 'address', quota: settings.addressRequests, windowMs };
  const callerPolicies = [user, token].map(policyText).join(', ');
  const addressPolicy = policyText(address);
  const quotas = createQuotas(now);
  const arriving = new Map<string, number>();

  /** What one more request does to the quotas that it counts for, and the headers that tell of it. */
  function look(policies: string, spendings: readonly Spendable[]) {
    const states: Spending[] = [];
    let told: { policy: RatePolicy; state: Spending } | undefined;
    for (const { policy, key } of spendings) {
      const state = quotas.look(policy, key);
      states.push(state);
      // The tightest of them, or the first one that refuses.
      if (told?.state.allowed === false) continue;
      if (told === undefined || !state.allowed || state.remaining < told.state.remaining) told = { policy, state };
    }
    if (told === undefined) throw new Error('a request counts for something');
    const resetSeconds = Math.ceil((told.state.fullAt - now()) / 1000);
    const ratelimit = `"${told.policy.name}";r=${told.state.remaining};t=${resetSeconds}`;
    const spend = () => {
      for (const [index, state] of states.entries()) quotas.keep(spendings[index]?.key ?? '', state);
    };
    return { told, spend, headers: { 'ratelimit-policy': policies, ratelimit } };
  }

  function charge(reply: FastifyReply, { told, spend, headers }: ReturnType<typeof look>): void {
    reply.headers(headers);
    if (!told.state.allowed) throw tooMany(told.policy, told.state);
    spend();
  }

  const ofCallers = new WeakMap<object, readonly Spendable[]>();
  function lookAtCaller(caller: Pick<Caller, 'userId' | 'tokenHash'>) {
    const spendings = ofCallers.get(caller) ?? [
      { policy: user, key: `user ${caller.userId}` },
      { policy: token, key: `token ${caller.tokenHash}` },
    ];
    ofCallers.set(caller, spendings);
    return look(callerPolicies, spendings);
  }

  return {
    caller(reply, caller) {
      charge(reply, lookAtCaller(caller));
    },
    spend(caller) {
      const { told, spend, headers } = lookAtCaller(caller);
      if (!told.state.allowed) return null;
      spend();
      return headers;
    },
    stranger(request, reply, kind = 'address') {
      charge(reply, look(addressPolicy, [{ policy: address, key: `${kind} ${request.ip}` }]));
    },
    upload(userId) {
      const count = arriving.get(userId) ?? 0;
      if (count >= uploads) {
        throw new BursarError(
          'too_many_requests',
          `${count} submissions of yours are arriving, which is the most at a time. Wait until one of them is over.`,
          { transient: true, retryAfterSeconds: 1 },
        );
      }
      arriving.set(userId, count + 1);
      return () => {
        const left = (arriving.get(userId) ?? 1) - 1;
        if (left === 0) arriving.delete(userId);
        else arriving.set(userId, left);
      };
    },
  };
}

const mostKept = 50_000;

/** What has been spent, by caller. Whoever has their whole quota back need not be remembered, so memory is bounded. */
function createQuotas(now: () => number) {
  const fullAt = new Map<string, number>();

  function makeRoom(): void {
    for (const [key, at] of fullAt) if (at <= now()) fullAt.delete(key);
    // More callers at once than are counted: those who were counted first start anew.
    for (const key of fullAt.keys()) {
      if (fullAt.size < mostKept) break;
      fullAt.delete(key);
    }
  }

  return {
    look: (policy: RatePolicy, key: string): Spending => spend(policy, fullAt.get(key) ?? 0, now()),
    keep(key: string, state: Spending): void {
      if (fullAt.size >= mostKept && !fullAt.has(key)) makeRoom();
      fullAt.set(key, state.fullAt);
    },
  };
}

function policyText({ name, quota, windowMs }: RatePolicy): string {
  return `"${name}";q=${quota};w=${Math.ceil(windowMs / 1000)}`;
}

function tooMany({ name, quota, windowMs }: RatePolicy, { waitMs }: Spending): BursarError {
  const whose = { user: 'of one user', token: 'with one token', address: 'without a valid token from one address' }[
    name
  ];
  return new BursarError(
    'too_many_requests',
    `That is more than ${quota} requests ${whose} within ${windowMs / 1000} s. Wait for as long as Retry-After says.`,
    { transient: true, retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)) },
  );
}
