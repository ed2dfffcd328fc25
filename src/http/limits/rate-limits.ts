import type { FastifyReply, FastifyRequest } from 'fastify';
import ipaddr from 'ipaddr.js';
import { LRUCache } from 'lru-cache';
import { BursarError } from '../../domain/errors.ts';
import type { Caller } from '../../services/identity/actor.ts';

export interface RateLimitSettings {
  windowMs: number;
  userRequests: number;
  addressRequests: number;
  /** Per minute, whatever the window of the other limits is. */
  failedSignIns: number;
}

/** Allows `quota` requests within a window. The quota refills evenly. */
interface Policy {
  quota: number;
  windowMs: number;
  /** Shown to callers. */
  name: string;
  /** The requests that it counts, after "The limit is 5 requests". */
  counted: string;
}

/** How much of a policy one caller has used. */
interface Counter {
  policy: Policy;
  /** The whole quota is available again at this time. */
  fullAt: number;
}

/** Beyond this many users, tokens or addresses at a time, the least recent one starts anew. */
const maxCallers = 20_000;

const signInWindowMs = 60_000;
/** Each start is stored until it has expired. */
const startsPerFailure = 3;

export type RateLimits = ReturnType<typeof createRateLimits>;

/**
 * Keeps the loop of one caller from starving the others, and slows down those who guess tokens and codes. Each instance counts
 * for itself, in memory. All functions throw `too_many_requests` when a limit is reached. Clients without a valid token are counted
 * by network: an IPv4 address, or the /64 of an IPv6 address, which one host can have all to itself.
 */
export function createRateLimits(settings: RateLimitSettings, now: () => number) {
  const { windowMs, failedSignIns } = settings;
  const ofUser = createCounters('user', settings.userRequests, windowMs, 'of one user');
  const ofToken = createCounters('token', Math.ceil(settings.userRequests / 2), windowMs, 'with one token');
  const withoutToken = 'without a valid token from one address';
  const ofAddress = createCounters('address', settings.addressRequests, windowMs, withoutToken);
  const wrong = 'with a wrong token or code from one address';
  const ofFailures = createCounters('failed_sign_in', failedSignIns, signInWindowMs, wrong);
  const starting = 'that start a sign-in from one address';
  const ofStarts = createCounters('started_sign_in', startsPerFailure * failedSignIns, signInWindowMs, starting);

  /** Counts the request in all counters, or in none if one of them refuses it. */
  function count(reply: FastifyReply, ...counters: readonly Counter[]): void {
    const at = now();
    const states = counters.map((counter) => ({ counter, state: consume(counter.policy, counter.fullAt, at) }));
    const refused = states.find(({ state }) => !state.allowed);
    if (refused === undefined) for (const { counter, state } of states) counter.fullAt = state.fullAt;
    // The counter that refuses the request, or else the one with the least left.
    const { counter, state } =
      refused ?? states.reduce((least, next) => (next.state.remaining < least.state.remaining ? next : least));
    const resetSeconds = Math.ceil((state.fullAt - at) / 1000);
    reply
      .header('ratelimit-policy', counters.map(({ policy }) => formatPolicy(policy)).join(', '))
      .header('ratelimit', `"${counter.policy.name}";r=${state.remaining};t=${resetSeconds}`);
    if (refused !== undefined) throw tooManyRequests(counter.policy, state.waitMs);
  }

  const addressCounter = (kind: string, { ip }: FastifyRequest) => ofAddress(`${kind} ${networkOf(ip)}`);
  /** Tokens and codes are counted separately: a broken script must not keep people from signing in. */
  const failureCounter = (kind: 'token' | 'code', { ip }: FastifyRequest) => ofFailures(`${kind} ${networkOf(ip)}`);

  return {
    /** Counts a request with a valid token against the limits of its user and of its token. */
    caller(reply: FastifyReply, { userId, tokenHash }: Pick<Caller, 'userId' | 'tokenHash'>): void {
      count(reply, ofUser(userId), ofToken(tokenHash));
    },
    /** Counts a request without a token against the limit of its network. Probes have a limit of their own. */
    anonymous(request: FastifyRequest, reply: FastifyReply, kind: 'address' | 'probe' = 'address'): void {
      count(reply, addressCounter(kind, request));
    },
    /**
     * Counts a request with a token that is not valid like `anonymous`, and as a failed sign-in. A valid token from the same
     * network still works, and so do sign-ins: the broken script of one user must not lock out an institute behind one address.
     */
    invalidToken(request: FastifyRequest, reply: FastifyReply): void {
      count(reply, addressCounter('address', request), failureCounter('token', request));
    },
    /**
     * Runs a sign-in with a code that is short enough to be guessed, unless too many have failed: then it throws before the
     * code is checked. The attempt is counted first, so that concurrent attempts cannot exceed the limit, and no longer counts
     * unless it fails with `sign_in_failed`.
     */
    async signIn<T>(request: FastifyRequest, reply: FastifyReply, attempt: () => Promise<T>): Promise<T> {
      const counter = failureCounter('code', request);
      count(reply, counter);
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
    /** Counts the start of a sign-in: it stores something for somebody who is not known yet. */
    signInStart(request: FastifyRequest, reply: FastifyReply): void {
      count(reply, ofStarts(networkOf(request.ip)));
    },
  };
}

/** Returns a function that finds the counter of a caller. */
function createCounters(name: string, quota: number, windowMs: number, counted: string): (key: string) => Counter {
  const policy = { name, quota, windowMs, counted };
  // With `max` it would allocate the memory of all entries at once.
  const counters = new LRUCache<string, Counter>({ maxSize: maxCallers, sizeCalculation: () => 1 });
  return (key) => {
    const counter = counters.get(key) ?? { policy, fullAt: 0 };
    counters.set(key, counter);
    return counter;
  };
}

const formatPolicy = ({ name, quota, windowMs }: Policy) => `"${name}";q=${quota};w=${Math.ceil(windowMs / 1000)}`;

function tooManyRequests({ quota, windowMs, counted }: Policy, waitMs: number): BursarError {
  return new BursarError(
    'too_many_requests',
    `The limit is ${quota} requests ${counted} within ${windowMs / 1000} s. Wait as long as Retry-After says.`,
    { transient: true, retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)) },
  );
}

/**
 * Counts one request against a quota that is full again at `fullAt`, which is all that is stored for a caller. A refused request
 * costs nothing. `waitMs` is the time until one more request is allowed.
 */
export function consume({ quota, windowMs }: Pick<Policy, 'quota' | 'windowMs'>, fullAt: number, now: number) {
  const costMs = windowMs / quota;
  const usedMs = Math.max(0, fullAt - now);
  const allowed = usedMs + costMs <= windowMs;
  const afterMs = allowed ? usedMs + costMs : usedMs;
  const remaining = Math.floor((windowMs - afterMs) / costMs + 1e-9);
  return { allowed, fullAt: now + afterMs, remaining, waitMs: Math.max(0, afterMs + costMs - windowMs) };
}

/**
 * The network that a client is counted by: an IPv4 address, even if it is written as an IPv4-mapped IPv6 address, or the /64 of
 * an IPv6 address. Text that is no address, which a proxy may send, is a network of its own.
 */
export function networkOf(address: string): string {
  // Most addresses are IPv4, and need no parser.
  if (!address.includes(':') || !ipaddr.IPv6.isValid(address)) return address;
  const ipv6 = ipaddr.IPv6.parse(address);
  if (ipv6.isIPv4MappedAddress()) return ipv6.toIPv4Address().toString();
  // A provider gives so many addresses to one customer: a single host can use all of them.
  const prefix = ipv6.parts.slice(0, 4).map((part) => part.toString(16));
  return `${prefix.join(':')}::/64`;
}
