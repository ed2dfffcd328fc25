import type { FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { BursarError } from '../../domain/errors.ts';
import type { Caller } from '../../services/identity/actor.ts';
import { networkOf } from './client-network.ts';
import { consume, type RateLimitState, type RatePolicy } from './token-bucket.ts';

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
 * for itself, in memory. All functions throw `too_many_requests` when a limit is reached. Clients without a valid token are counted by network: an IPv4 address, or the /64 of an IPv6 address, which one host can have all to itself.
 */
export interface RateLimits {
  /** Counts a request with a valid token against the limits of its user and of its token. */
  caller(reply: FastifyReply, caller: CallerKey): void;
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

interface Policy extends RatePolicy {
  /** Shown to callers. */
  name: string;
  /** Which requests it counts, after "The limit is 5 requests". */
  counted: string;
}

/** How much of a policy one caller has used. */
interface Counter {
  policy: Policy;
  /** The whole quota is available again at this time. */
  fullAt: number;
}

/** The counter that refuses the request, or else the one with the least left. */
interface Decision {
  policy: Policy;
  state: RateLimitState;
  /** The value of the RateLimit header. */
  header: string;
}

/** Beyond this many users, tokens or addresses at a time, the least recent one starts anew. */
const maxCallers = 20_000;

const signInWindowMs = 60_000;

export function createRateLimits(settings: RateLimitSettings, now: () => number): RateLimits {
  const { windowMs, userRequests, tokenRequests, addressRequests, failedSignIns, startedSignIns } = settings;
  const createFinder = (name: string, quota: number, policyWindowMs: number, counted: string) =>
    createCounters({ name, quota, windowMs: policyWindowMs, counted });
  const findUser = createFinder('user', userRequests, windowMs, 'of one user');
  const findToken = createFinder('token', tokenRequests, windowMs, 'with one token');
  const findAddress = createFinder('address', addressRequests, windowMs, 'without a valid token from one address');
  const findFailures = createFinder(
    'failed_sign_in',
    failedSignIns,
    signInWindowMs,
    'with a wrong token or code from one address',
  );
  const findStarts = createFinder(
    'started_sign_in',
    startedSignIns,
    signInWindowMs,
    'that start a sign-in from one address',
  );

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

  function countOrThrow(reply: FastifyReply, counters: readonly Counter[]): void {
    const { policy, state, header } = count(counters);
    const policies = counters.map((counter) => formatPolicy(counter.policy)).join(', ');
    reply.header('ratelimit-policy', policies).header('ratelimit', header);
    if (!state.allowed) throw tooManyRequests(policy, state);
  }

  const addressCounter = (kind: string, { ip }: FastifyRequest) => findAddress(`${kind} ${networkOf(ip)}`);
  /** Tokens and codes are counted separately: a broken script must not keep people from signing in. */
  const failureCounter = (kind: 'token' | 'code', { ip }: FastifyRequest) => findFailures(`${kind} ${networkOf(ip)}`);

  return {
    caller: (reply, { userId, tokenHash }) => countOrThrow(reply, [findUser(userId), findToken(tokenHash)]),
    anonymous: (request, reply, kind = 'address') => countOrThrow(reply, [addressCounter(kind, request)]),
    invalidToken: (request, reply) =>
      countOrThrow(reply, [addressCounter('address', request), failureCounter('token', request)]),
    async signIn(request, reply, attempt) {
      const counter = failureCounter('code', request);
      countOrThrow(reply, [counter]);
      let hasFailed = false;
      try {
        return await attempt();
      } catch (error) {
        hasFailed = error instanceof BursarError && error.code === 'sign_in_failed';
        throw error;
      } finally {
        if (!hasFailed) counter.fullAt -= signInWindowMs / failedSignIns;
      }
    },
    signInStart: (request, reply) => countOrThrow(reply, [findStarts(networkOf(request.ip))]),
  };
}

/** Returns a function that finds the counter of a caller. */
function createCounters(policy: Policy): (key: string) => Counter {
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

function formatPolicy({ name, quota, windowMs }: Policy): string {
  return `"${name}";q=${quota};w=${Math.ceil(windowMs / 1000)}`;
}

function tooManyRequests({ quota, windowMs, counted }: Policy, { waitMs }: RateLimitState): BursarError {
  return new BursarError(
    'too_many_requests',
    `The limit is ${quota} requests ${counted} within ${windowMs / 1000} s. Wait as long as Retry-After says.`,
    { transient: true, retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)) },
  );
}
