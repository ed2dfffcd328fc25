import { record } from './trace.ts';
import { randomBetween, type SimulatedProcess, sleep, tasks } from './virtual-time.ts';

/** A fault that happens at the `nth` call of a place. */
export interface CallFault {
  place: string;
  nth: number;
  /**
   * `kill during`: the server is killed, and its request still arrives, some time later. `power failure`: server and controller
   * are killed after the call. `hang`: the call has its effect, and the time limit for the response is reached.
   */
  kind: 'kill before' | 'kill during' | 'kill after' | 'power failure' | 'fail' | 'lose response' | 'delay' | 'hang';
}

/** The result of a call of a server that is dead. Each has its own, so that what waits for it can be collected. */
export const never = () => new Promise<never>(() => undefined);

/** How late a request of a dead server arrives. */
const maxLateMs = 30_000;
/** The time limit of a command. */
const hangMs = 60_000;

/** By place and number. */
let callFaults = new Map<string, CallFault>();
let calls = new Map<string, number>();
let appliedFaults = 0;
let areFaultsEnabled = false;
let crashController = () => {};

export const countAppliedFaults = () => appliedFaults;

/** `onPowerFailure` kills the controller. */
export function resetFaults(faults: readonly CallFault[], onPowerFailure: () => void): void {
  callFaults = new Map(faults.map((fault) => [`${fault.place} ${fault.nth}`, fault]));
  calls = new Map();
  appliedFaults = 0;
  areFaultsEnabled = true;
  crashController = onPowerFailure;
}

/** From now on every call succeeds. */
export function stopFaults(): void {
  areFaultsEnabled = false;
}

/** Applies a fault now. `apply` returns false if it changes nothing, such as the kill of a dead server: then it does not count. */
export function applyFault(text: string, apply: () => boolean): void {
  record(`FAULT ${text}`);
  if (apply()) appliedFaults += 1;
}

/** Returns the fault of this call, if one is planned for it. */
export function nextFault(place: string): CallFault | undefined {
  const nth = (calls.get(place) ?? 0) + 1;
  calls.set(place, nth);
  if (!areFaultsEnabled) return undefined;
  const fault = callFaults.get(`${place} ${nth}`);
  if (fault !== undefined) applyFault(`${fault.kind} at ${place} ${nth}`, () => true);
  return fault;
}

export interface CallOptions {
  /** The error of this call that a caller can really get. */
  error(detail: string): Error;
  /** Latency of the request, and again of the response. */
  latencyMs?: [min: number, max: number];
  /** Duration of a fault `delay`. */
  delayMs?: number;
}

/**
 * A call that leaves the core. The plan of the history decides: it continues, is delayed, fails, has its effect and loses the
 * response, or the server is killed before or after it.
 */
export async function callOutside<T>(place: string, options: CallOptions, call: () => Promise<T>): Promise<T> {
  const process = tasks.getStore()?.process;
  if (process?.isDead) return await never();
  const fault = nextFault(place)?.kind;
  if (fault === 'kill before') return await killed(process, place);
  if (fault === 'kill during') {
    void arriveLate(call);
    return await killed(process, place);
  }
  const [min, max] = options.latencyMs ?? [0, 0];
  if (max > 0) await sleep(randomBetween(min, max));
  if (fault === 'delay') await sleep(options.delayMs ?? 30_000);
  if (process?.isDead) return await never();
  if (fault === 'fail') throw options.error(`${place} failed`);
  const result = await call();
  if (fault === 'power failure') crashController();
  if (fault === 'kill after' || fault === 'power failure') return await killed(process, place);
  if (fault === 'hang') await sleep(hangMs);
  if (max > 0) await sleep(randomBetween(min, max));
  if (process?.isDead) return await never();
  if (fault === 'lose response' || fault === 'hang') throw options.error(`the response of ${place} was lost`);
  return result;
}

/** Does not belong to the server, which is dead by then. */
async function arriveLate(call: () => Promise<unknown>): Promise<void> {
  await tasks.run(undefined, async () => {
    await sleep(randomBetween(100, maxLateMs));
    await call().catch(() => undefined);
  });
}

export function killed(process: SimulatedProcess | undefined, place: string): Promise<never> {
  process?.kill(place);
  return never();
}

/** The same for a call that returns at once, such as a statement of SQLite. Throws if the server is dead. */
export function callOutsideSync<T>(place: string, error: () => Error, call: () => T): T {
  const process = tasks.getStore()?.process;
  if (process?.isDead) throw new SimulatedKill();
  const fault = nextFault(place)?.kind;
  if (fault === 'kill before') process?.kill(place);
  if (process?.isDead) throw new SimulatedKill();
  if (fault === 'fail') throw error();
  const result = call();
  if (fault === 'power failure') crashController();
  if (fault === 'kill after' || fault === 'power failure') process?.kill(place);
  if (process?.isDead) throw new SimulatedKill();
  return result;
}

/** Ends the tasks of a killed server. Only they see it. */
export class SimulatedKill extends Error {}
