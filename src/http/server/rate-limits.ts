import type { FastifyReply, FastifyRequest } from 'fastify';
import { BursarError } from '../../domain/errors.ts';
import type { Caller } from '../../services/identity/actor.ts';
import { consume, type RateLimitState, type RatePolicy } from './rate-limit.ts';

export interface RateLimitSettings {
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
  /** The same, answering with what the header `RateLimit` tells of it; null, and nothing spent, when there is no more. */
  spend(caller: Pick<Caller, 'userId' | 'tokenHash'>): string | null;
  /** A request without one: against the limit of the address that it comes from. Probes have one of their own. */
  anonymous(request: FastifyRequest, reply: FastifyReply, kind?: 'address' | 'probe'): void;
  /** A submission that begins to arrive; to be called back when it is over. */
  upload(userId: string): () => void;
}

interface Spendable {
  policy: RatePolicy;
  key: string;
}

export function createRateLimits(settings: RateLimitSettings, now: () => number): RateLimits {
  const { windowMs, uploads } = settings;
  const user = { name: 'user', quota: settings.userRequests, windowMs };
  const token = { name: 'token', quota: settings.tokenRequests, windowMs };
  const address = { name: 'address', quota: settings.addressRequests, windowMs };
  const callerPolicies = [user, token].map(policyText).join(', ');
  const addressPolicy = policyText(address);
  const quotas = createQuotas(now);
  const arriving = new Map<string, number>();

  /** What one more request does to the quotas that it counts for, and what it is told of them. */
  function look(spendings: readonly Spendable[]) {
    const at = now();
    const states = spendings.map(({ policy, key }) => quotas.look(policy, key, at));
    const tightest = tightestOf(states);
    const [policy, state] = [spendings[tightest]?.policy, states[tightest]];
    if (policy === undefined || state === undefined) throw new Error('a request counts for something');
    const resetSeconds = Math.ceil((state.fullAt - at) / 1000);
    return { spendings, states, policy, state, told: `"${policy.name}";r=${state.remaining};t=${resetSeconds}` };
  }

  function keep({ spendings, states }: ReturnType<typeof look>): void {
    for (let index = 0; index < states.length; index++)
      quotas.keep(spendings[index]?.key ?? '', states[index]?.fullAt ?? 0);
  }

  function charge(reply: FastifyReply, policies: string, found: ReturnType<typeof look>): void {
    reply.header('ratelimit-policy', policies).header('ratelimit', found.told);
    if (!found.state.allowed) throw tooMany(found.policy, found.state);
    keep(found);
  }

  const ofCallers = new WeakMap<object, readonly Spendable[]>();
  function lookAtCaller(caller: Pick<Caller, 'userId' | 'tokenHash'>) {
    const spendings = ofCallers.get(caller) ?? [
      { policy: user, key: `user ${caller.userId}` },
      { policy: token, key: `token ${caller.tokenHash}` },
    ];
    ofCallers.set(caller, spendings);
    return look(spendings);
  }

  return {
    caller(reply, caller) {
      charge(reply, callerPolicies, lookAtCaller(caller));
    },
    spend(caller) {
      const found = lookAtCaller(caller);
      if (!found.state.allowed) return null;
      keep(found);
      return found.told;
    },
    anonymous(request, reply, kind = 'address') {
      charge(reply, addressPolicy, look([{ policy: address, key: `${kind} ${request.ip}` }]));
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
    look: (policy: RatePolicy, key: string, at: number): RateLimitState => consume(policy, fullAt.get(key) ?? 0, at),
    keep(key: string, at: number): void {
      if (fullAt.size >= mostKept && !fullAt.has(key)) makeRoom();
      fullAt.set(key, at);
    },
  };
}

/** Which of them has least left, or is the first that refuses. */
function tightestOf(states: readonly RateLimitState[]): number {
  let tightest = 0;
  for (let index = 0; index < states.length; index++) {
    if (states[index]?.allowed === false) return index;
    if ((states[index]?.remaining ?? 0) < (states[tightest]?.remaining ?? 0)) tightest = index;
  }
  return tightest;
}

function policyText({ name, quota, windowMs }: RatePolicy): string {
  return `"${name}";q=${quota};w=${Math.ceil(windowMs / 1000)}`;
}

function tooMany({ name, quota, windowMs }: RatePolicy, { waitMs }: RateLimitState): BursarError {
  const whose = { user: 'of one user', token: 'with one token', address: 'without a valid token from one address' }[
    name
  ];
  return new BursarError(
    'too_many_requests',
    `That is more than ${quota} requests ${whose} within ${windowMs / 1000} s. Wait for as long as Retry-After says.`,
    { transient: true, retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)) },
  );
}
