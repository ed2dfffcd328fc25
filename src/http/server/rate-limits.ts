import type { FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { BursarError } from '../../domain/errors.ts';
import type { Caller } from '../../services/identity/actor.ts';
import { consume, type RateLimitState, type RatePolicy } from './rate-limit.ts';

export interface RateLimitSettings {
  windowMs: number;
  userRequests: number;
  tokenRequests: number;
  addressRequests: number;
}

type CallerKey = Pick<Caller, 'userId' | 'tokenHash'>;

/**
 * Keeps the loop of one caller from starving the others. Each instance counts for itself, in memory. `caller`
 * and `anonymous` throw `too_many_requests` when a limit is reached.
 */
export interface RateLimits {
  /** Counts a request with a valid token against the limits of its user and of its token. */
  caller(reply: FastifyReply, caller: CallerKey): void;
  /**
   * Returns a function that counts like `caller`, but returns the value of the RateLimit header. At a limit it counts
   * nothing and returns undefined. It finds the counters once, for code that counts often.
   */
  callerCounter(caller: CallerKey): () => string | undefined;
  /** Counts a request without a valid token against the limit of its address. Probes have a limit of their own. */
  anonymous(request: FastifyRequest, reply: FastifyReply, kind?: 'address' | 'probe'): void;
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

export function createRateLimits(settings: RateLimitSettings, now: () => number): RateLimits {
  const { windowMs } = settings;
  const user = { name: 'user', quota: settings.userRequests, windowMs };
  const token = { name: 'token', quota: settings.tokenRequests, windowMs };
  const address = { name: 'address', quota: settings.addressRequests, windowMs };
  const callerPolicies = `${formatPolicy(user)}, ${formatPolicy(token)}`;
  const addressPolicies = formatPolicy(address);
  const findUserCounter = createCounters(user);
  const findTokenCounter = createCounters(token);
  const findAddressCounter = createCounters(address);

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
      sendOrThrow(reply, addressPolicies, count([findAddressCounter(`${kind} ${request.ip}`)])),
  };
}

/** Returns a function that finds the counter of a caller. */
function createCounters(policy: RatePolicy): (key: string) => Counter {
  const counters = new LRUCache<string, Counter>({ max: maxCallers });
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
};

function tooManyRequests({ name, quota, windowMs }: RatePolicy, { waitMs }: RateLimitState): BursarError {
  return new BursarError(
    'too_many_requests',
    `The limit is ${quota} requests ${policyDescriptions[name]} within ${windowMs / 1000} s. Wait as long as Retry-After says.`,
    { transient: true, retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)) },
  );
}
