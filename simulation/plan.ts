import type { CallFault } from './faults.ts';
import { createRandom } from './virtual-time.ts';

/** A request of a user or an administrator. Times are virtual milliseconds. */
export type Action = { id: number; at: number } & (
  | Submission
  | { kind: 'follow events'; user: string }
  | { kind: 'register webhook'; user: string }
  | { kind: 'grant'; user: string; amount: number }
  | { kind: 'transfer'; from: string; to: string; amount: number }
  | { kind: 'refund'; amount: number }
  | { kind: 'close project' }
  | { kind: 'open period'; memberSeconds: number; endsAfterMs: number | null }
  | { kind: 'disable user'; user: string; forMs: number }
);

export interface Submission {
  kind: 'submit';
  user: string;
  project: 'main' | 'side';
  /** With an Idempotency-Key a request is repeated until it is answered, without one never. */
  hasKey: boolean;
  zip: 'none' | 'small' | 'large';
  uploadMs: number;
  cores: number;
  runtimeHours: number;
  /** Runtime and exit code of the program on its node. */
  seconds: number;
  exitCode: number;
  isRefused: boolean;
  cancelAfterMs: number | null;
  deletesFiles: boolean;
}

/** A fault that happens at a time, whatever is being called. */
export type TimedFault = { at: number } & (
  | { kind: 'pause'; server: number; ms: number }
  | { kind: 'kill'; server: number }
  | { kind: 'clock jump'; server: number; ms: number }
  | { kind: 'controller crash'; lostMs: number; downMs: number }
  | { kind: 'node failure'; noticeMs: number }
  | { kind: 'full queue'; ms: number }
  | { kind: 'endpoint down'; ms: number }
  | { kind: 'lost connections' }
);

export interface Plan {
  seed: number;
  servers: number;
  actions: Action[];
  callFaults: CallFault[];
  timedFaults: TimedFault[];
  clusterClockOffsetMs: number;
  listsEndsAfterMs: number;
  /** Whether the scheduler remembers nothing of a job that it may forget. */
  forgetsRecords: boolean;
}

/** Faults happen in this time. */
export const faultsEndAt = 100_000;
const submissionsEndAt = 60_000;
const jobCount = 50;
/** Some of them never happen: those at a call that is not made so often, and those of a server that is down. */
const [callFaultCount, timedFaultCount] = [24, 16];
export const users = ['1', '2', '3'];

type FaultKind = CallFault['kind'];
const everyKind: FaultKind[] = ['kill before', 'kill after', 'fail', 'lose response', 'delay'];
/** Requests to the controller that are sent by programs of their own, which outlive a server. */
const everyKindOfRequest: FaultKind[] = [...everyKind, 'kill during', 'power failure'];
const killsAndFailures: FaultKind[] = ['kill before', 'fail'];

/**
 * The places of faults, with the number of calls in a typical history. First the class of the place is chosen, then the call:
 * otherwise nearly all faults would hit the most frequent calls, and rare steps such as a commit of an end hardly ever.
 */
const places: Record<string, [typicalCalls: number, kinds: FaultKind[]]> = {
  transaction: [600, everyKind],
  commit: [500, ['kill before', 'kill after', 'power failure', 'fail']],
  write: [5000, killsAndFailures],
  read: [4000, ['fail']],
  file: [700, killsAndFailures],
  'engine.open': [3, everyKind],
  'engine.submit': [55, everyKindOfRequest],
  'engine.release': [55, everyKindOfRequest],
  'engine.find': [10, everyKind],
  'engine.observe': [120, everyKind],
  'engine.readEndRecords': [60, everyKind],
  'engine.preventStart': [3, everyKind],
  'engine.inspectMissing': [5, everyKind],
  'engine.discard': [3, everyKindOfRequest],
  'engine.cancel': [10, everyKindOfRequest],
  'engine.forget': [50, everyKind],
  'spool.receive': [55, everyKind],
  'spool.storeForJob': [8, everyKind],
  'spool.remove': [50, everyKind],
  'workspace.stage': [50, everyKind],
  'workspace.measure': [50, everyKind],
  'workspace.remove': [10, everyKind],
  webhook: [100, everyKind],
};

/** Draws all requests and faults of a history. The history itself draws delays and the order of tasks. */
export function createPlan(seed: number): Plan {
  // Another stream than that of the history, whose random numbers depend on what happens.
  const random = createRandom(seed ^ 0x5eed);
  const between = (min: number, max: number) => Math.floor(min + random() * (max - min));
  const choose = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  const chance = (probability: number) => random() < probability;
  const servers = choose([1, 1, 2, 3]);
  let id = 1;
  const actions: Action[] = [];
  for (const user of users) actions.push({ id: id++, at: between(0, 3000), kind: 'follow events', user });
  actions.push({ id: id++, at: between(0, 5000), kind: 'register webhook', user: '2' });
  for (let count = 0; count < jobCount; count++) {
    actions.push({
      id: id++,
      at: between(0, submissionsEndAt),
      kind: 'submit',
      user: choose(users),
      project: chance(0.8) ? 'main' : 'side',
      hasKey: chance(0.7),
      zip: chance(0.15) ? 'large' : chance(0.25) ? 'small' : 'none',
      uploadMs: chance(0.3) ? between(0, 20_000) : 0,
      cores: between(1, 4),
      runtimeHours: choose([0.005, 0.01, 0.02]),
      seconds: between(1, 30),
      exitCode: chance(0.2) ? between(1, 4) : 0,
      isRefused: chance(0.05),
      cancelAfterMs: chance(0.15) ? between(0, 40_000) : null,
      deletesFiles: chance(0.2),
    });
  }
  const administration: (() => Action)[] = [
    () => ({
      id: id++,
      at: between(5000, faultsEndAt),
      kind: 'grant',
      user: choose(users),
      amount: between(100, 5000),
    }),
    () => ({ id: id++, at: between(5000, faultsEndAt), kind: 'transfer', from: '1', to: '2', amount: between(1, 200) }),
    () => ({ id: id++, at: between(40_000, faultsEndAt), kind: 'refund', amount: between(1, 20) }),
    () => ({ id: id++, at: between(30_000, faultsEndAt), kind: 'close project' }),
    () => ({
      id: id++,
      at: between(5000, faultsEndAt),
      kind: 'open period',
      memberSeconds: between(1000, 9000),
      endsAfterMs: chance(0.3) ? between(5000, 60_000) : null,
    }),
    () => ({ id: id++, at: between(5000, faultsEndAt), kind: 'disable user', user: '3', forMs: between(1000, 30_000) }),
  ];
  for (let count = between(3, 8); count > 0; count--) actions.push(choose(administration)());

  const callFaults = Array.from({ length: callFaultCount }, (): CallFault => {
    const [place, [typicalCalls, kinds]] = choose(Object.entries(places));
    return { place, nth: between(1, typicalCalls + 1), kind: choose(kinds) };
  });
  const timed: (() => TimedFault)[] = [
    () => ({ at: between(1000, faultsEndAt), kind: 'pause', server: between(0, servers), ms: between(1000, 40_000) }),
    () => ({ at: between(1000, faultsEndAt), kind: 'kill', server: between(0, servers) }),
    () => ({
      at: between(1000, faultsEndAt),
      kind: 'clock jump',
      server: between(0, servers),
      ms: between(-3000, 3000),
    }),
    () => ({
      at: between(10_000, faultsEndAt),
      kind: 'controller crash',
      lostMs: chance(0.5) ? 0 : between(0, 10_000),
      downMs: between(500, 30_000),
    }),
    () => ({ at: between(10_000, faultsEndAt), kind: 'node failure', noticeMs: between(1000, 40_000) }),
    () => ({ at: between(1000, faultsEndAt), kind: 'full queue', ms: between(1000, 20_000) }),
    () => ({ at: between(1000, faultsEndAt), kind: 'endpoint down', ms: between(1000, 40_000) }),
    () => ({ at: between(1000, faultsEndAt), kind: 'lost connections' }),
  ];
  const timedFaults = Array.from({ length: timedFaultCount }, () => choose(timed)());
  const cluster = {
    clusterClockOffsetMs: between(-2000, 2000),
    listsEndsAfterMs: chance(0.3) ? between(1000, 20_000) : 0,
    forgetsRecords: chance(0.5),
  };
  return { seed, servers, actions, callFaults, timedFaults, ...cluster };
}
