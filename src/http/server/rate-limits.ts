import type { FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { BursarError } from '../../domain/errors.ts';
import type { Caller } from '../../services/identity/actor.ts';
import { networkOf } from './client-network.ts';
import { consume, type RateLimitState, type RatePolicy } from './rate-limit.ts';

export interface RateLimitSettings {
  windowMs: number;
  userRequests: number;
  tokenRequests: number;
  addressRequests: number;
  /** These two are per minute, whatever the window of the other limits is. */
  failedSignIns: number;
  startedSignIns: number;
}

type CallerKey = Pick<Caller, 'userId' | 'tokenHash'>;

/**
 * Keeps the loop of one caller from starving the others, and slows down those who guess tokens and codes. Each instance counts
 * for itself, in memory. All functions but `callerCounter` throw `too_many_requests` when a limit is reached. Clients without a
 * valid token are counted by network: an IPv4 address, or the /64 of an IPv6 address, which one host can have all to itself.
 */
export interface RateLimits {
  /** Counts a request with a valid token against the limits of its user and of its token. */
  caller(reply: FastifyReply, caller: CallerKey): void;
  /**
   * Returns a function that counts like `caller`, but returns the value of the RateLimit header. At a limit it counts
   * nothing and returns undefined. It finds the counters once, for code that counts often.
   */
  callerCounter(caller: CallerKey): () => string | undefined;
  /** Counts a request without a token against the limit of its network. Probes have a limit of their own. */
  anonymous(request: FastifyRequest, reply: FastifyReply, kind?: 'address' | 'probe'): void;
  /**
   * Counts a request with a token that is not valid like `anonymous`, and as a failed sign-in. A valid token from the same
   * network still works, and so do sign-ins: the broken script of one user must not lock out an institute behind one address.
   */
  invalidToken(request: FastifyRequest, reply: FastifyReply): void;
  /**
   * Runs a sign-in with a code that is short enough to be guessed, unless too many have failed: then it throws before the code
   * is checked. The attempt is counted first, so that concurrent attempts cannot exceed the limit, and no longer counts unless
   * it fails with `sign_in_failed`.
   */
  signIn<T>(request: FastifyRequest, reply: FastifyReply, attempt: () => Promise<T>): Promise<T>;
  /** Counts the start of a sign-in: it stores something for somebody who is not known yet. */
  signInStart(request: FastifyRequest, reply: FastifyReply): void;
}

/** How much of a policy one caller has used. */
interface Counter {
  policy: RatePolicy;
  /** The whole quota is available again at this time. */
  fullAt: number;
}

/** The counter that refuses the request, or else the one with the least left. */
interface Decision {
  policy: RatePolicy;
  state: RateLimitState;
  /** The value of the RateLimit header. */
  header: string;
}

/** Beyond this many users, tokens or addresses at a time, the least recent one starts anew. */
const maxCallers = 20_000;

const signInWindowMs = 60_000;

export function createRateLimits(settings: RateLimitSettings, now: () => number): RateLimits {
  const { windowMs } = settings;
  const user = { name: 'user', quota: settings.userRequests, windowMs };
  const token = { name: 'token', quota: settings.tokenRequests, windowMs };
  const address = { name: 'address', quota: settings.addressRequests, windowMs };
  const failure = { name: 'failed_sign_in', quota: settings.failedSignIns, windowMs: signInWindowMs };
  const start = { name: 'started_sign_in', quota: settings.startedSignIns, windowMs: signInWindowMs };
  const callerPolicies = `${formatPolicy(user)}, ${formatPolicy(token)}`;
  const addressPolicies = formatPolicy(address);
  const failurePolicies = formatPolicy(failure);
  const startPolicies = formatPolicy(start);
  const findUserCounter = createCounters(user);
  const findTokenCounter = createCounters(token);
  const findAddressCounter = createCounters(address);
  const findFailureCounter = createCounters(failure);
  const findStartCounter = createCounters(start);

  /** Counts the request in all counters, or in none if one of them refuses it. */
  function count(counters: readonly Counter[]): Decision {
    const at = now();
    const states = counters.map((counter) => ({ counter, state: consume(counter.policy, counter.fullAt, at) }));
    const refused = states.find(({ state }) => !state.allowed);
    if (refused === undefined) for (const { counter, state } of states) counter.fullAt = state.fullAt;
    const { counter, state } =
      refused ?? states.reduce((least, next) => (next.state.remaining < least.state.remaining ? next : least));
    const resetSeconds = Math.ceil((state.fullAt - at) / 1000);
    const { policy } = counter;
    return { policy, state, header: `"${policy.name}";r=${state.remaining};t=${resetSeconds}` };
  }

  function sendOrThrow(reply: FastifyReply, policies: string, decision: Decision): void {
    const { policy, state, header } = decision;
    reply.header('ratelimit-policy', policies).header('ratelimit', header);
    if (!state.allowed) throw tooManyRequests(policy, state);
  }

  const countersOf = ({ userId, tokenHash }: CallerKey) => [findUserCounter(userId), findTokenCounter(tokenHash)];

  const addressCounter = (kind: string, { ip }: FastifyRequest) => findAddressCounter(`${kind} ${networkOf(ip)}`);
  /** Tokens and codes are counted separately: a broken script must not keep people from signing in. */
  const failureCounter = (kind: 'token' | 'code', { ip }: FastifyRequest) =>
    findFailureCounter(`${kind} ${networkOf(ip)}`);

  return {
    caller: (reply, caller) => sendOrThrow(reply, callerPolicies, count(countersOf(caller))),
    callerCounter(caller) {
      const callerCounters = countersOf(caller);
      return () => {
        const { state, header } = count(callerCounters);
        return state.allowed ? header : undefined;
      };
    },
    anonymous: (request, reply, kind = 'address') =>
      sendOrThrow(reply, addressPolicies, count([addressCounter(kind, request)])),
    invalidToken(request, reply) {
      const decision = count([addressCounter('address', request), failureCounter('token', request)]);
      sendOrThrow(reply, `${addressPolicies}, ${failurePolicies}`, decision);
    },
    async signIn(request, reply, attempt) {
      const counter = failureCounter('code', request);
      sendOrThrow(reply, failurePolicies, count([counter]));
      let hasFailed = false;
      try {
        return await attempt();
      } catch (error) {
        hasFailed = error instanceof BursarError && error.code === 'sign_in_failed';
        throw error;
      } finally {
        if (!hasFailed) counter.fullAt -= failure.windowMs / failure.quota;
      }
    },
    signInStart: (request, reply) =>
      sendOrThrow(reply, startPolicies, count([findStartCounter(networkOf(request.ip))])),
  };
}

/** Returns a function that finds the counter of a caller. */
function createCounters(policy: RatePolicy): (key: string) => Counter {
  // With `max` it would allocate the memory of all entries at once.
  const counters = new LRUCache<string, Counter>({ maxSize: maxCallers, sizeCalculation: () => 1 });
  return (key) => {
    let counter = counters.get(key);
    if (counter === undefined) {
      counter = { policy, fullAt: 0 };
      counters.set(key, counter);
    }
    return counter;
  };
}

function formatPolicy({ name, quota, windowMs }: RatePolicy): string {
  return `"${name}";q=${quota};w=${Math.ceil(windowMs / 1000)}`;
}

const policyDescriptions: Record<string, string> = {
  user: 'of one user',
  token: 'with one token',
  address: 'without a valid token from one address',
  failed_sign_in: 'with a wrong token or code from one address',
  started_sign_in: 'that start a sign-in from one address',
};

function tooManyRequests({ name, quota, windowMs }: RatePolicy, { waitMs }: RateLimitState): BursarError {
  return new BursarError(
    'too_many_requests',
    `The limit is ${quota} requests ${policyDescriptions[name]} within ${windowMs / 1000} s. Wait as long as Retry-After says.`,
    { transient: true, retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)) },
  );
}
