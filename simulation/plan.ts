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
  | { kind: 'open period'; memberSeconds: number; end: { afterMs: number; nextId: number } | null }
  | { kind: 'disable user'; user: string; forMs: number }
);

export interface Submission {
  kind: 'submit';
  user: string;
  project: 'main' | 'side';
  /** With an Idempotency-Key a request is repeated until it is answered, without one never. */
  hasKey: boolean;
  zip: 'none' | 'small' | 'large' | 'broken';
  uploadMs: number;
  cores: number;
  runtimeHours: number;
  /** Runtime and exit code of the program on its node. */
  seconds: number;
  exitCode: number;
  isRefused: boolean;
  cancelAfterMs: number | null;
  deletesFiles: boolean;
  /** Sent only as long as fewer than `minJobs` were accepted or wait for their answer. */
  isSpare: boolean;
}

/** A fault that happens at a time, whatever is being called. */
export type TimedFault = { at: number } & (
  | { kind: 'pause'; server: number; ms: number }
  | { kind: 'kill'; server: number }
  | { kind: 'clock jump'; server: number; ms: number }
  | { kind: 'controller crash'; lostMs: number; downMs: number }
  | { kind: 'node failure'; noticeMs: number }
  | { kind: 'full queue'; ms: number }
  | { kind: 'endpoint fails'; status: number; ms: number }
  | { kind: 'lost connections' }
);

export interface Plan {
  seed: number;
  servers: number;
  actions: Action[];
  callFaults: CallFault[];
  timedFaults: TimedFault[];
  /** By server. */
  clockOffsetsMs: number[];
  clusterClockOffsetMs: number;
  listsEndsAfterMs: number;
  /** Whether the scheduler remembers nothing of a job that it may forget. */
  forgetsRecords: boolean;
}

/** When the files of the jobs of project side are deleted, after their end, and how long before the owner is told. */
export const retention = { keepMs: 25_000, noticeMs: 10_000 };

/** The file of every zip. */
export const inputName = 'data';
const inputBytes = { none: 0, broken: 0, small: 100, large: 80_000 };
/** Two jobs that get each other's files should notice it. */
export const inputVariants = 7;

/** The content of the file of a submission; null if it has none. */
export function inputOf(zip: Submission['zip'], id: number): Buffer | null {
  return inputBytes[zip] === 0 ? null : Buffer.alloc(inputBytes[zip], 1 + (id % inputVariants));
}

/** Faults happen in this time. */
export const faultsEndAt = 100_000;
const submissionsEndAt = 60_000;
/** The spare ones are sent if too many of the others were refused or not answered. */
const [submissionCount, spareCount] = [52, 44];
/** Spare submissions are sent while fewer jobs than this are accepted or wait for their answer. */
export const minJobs = 55;
/** Some of them never happen: those at a call that is not made so often, and those of a server that is down. */
const [callFaultCount, timedFaultCount] = [34, 24];
export const users = ['1', '2', '3'];
export const administrator = '9';
/** Of project main. */
export const members = [...users, administrator];

type FaultKind = CallFault['kind'];
const everyKind: FaultKind[] = ['kill before', 'kill after', 'fail', 'lose response', 'delay', 'hang'];
/** Requests to the controller that are sent by programs of their own, which outlive a server. */
const everyKindOfRequest: FaultKind[] = [...everyKind, 'kill during', 'power failure'];
const killsAndFailures: FaultKind[] = ['kill before', 'fail'];

/**
 * The places of faults, with the number of calls in a typical history. First the class of the place is chosen, then the call:
 * otherwise nearly all faults would hit the most frequent calls, and rare steps such as a commit of an end hardly ever.
 */
const places: Record<string, [typicalCalls: number, kinds: FaultKind[]]> = {
  transaction: [550, everyKind],
  commit: [800, ['kill before', 'kill after', 'power failure', 'fail']],
  write: [5500, killsAndFailures],
  read: [3500, ['fail']],
  file: [2300, killsAndFailures],
  'engine.open': [5, everyKind],
  'engine.submit': [80, everyKindOfRequest],
  'engine.release': [60, everyKindOfRequest],
  'engine.find': [30, everyKind],
  'engine.observe': [50, everyKind],
  'engine.readEndRecords': [32, everyKind],
  'engine.preventStart': [2, everyKind],
  'engine.inspectMissing': [3, everyKind],
  'engine.discard': [2, everyKindOfRequest],
  'engine.cancel': [20, everyKindOfRequest],
  'engine.forget': [58, everyKind],
  // After a failure it leaves nothing.
  'spool.receive': [80, ['kill before', 'kill after', 'fail', 'delay']],
  'spool.storeForJob': [8, everyKind],
  'spool.has': [10, everyKind],
  'spool.list': [20, everyKind],
  'spool.remove': [60, everyKind],
  'workspace.stage': [85, everyKind],
  'workspace.measure': [58, everyKind],
  'workspace.list': [5, everyKind],
  'workspace.remove': [25, everyKind],
  webhook: [85, everyKind],
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
  for (const user of users.slice(1)) actions.push({ id: id++, at: between(0, 3000), kind: 'follow events', user });
  actions.push({ id: id++, at: between(0, 5000), kind: 'register webhook', user: choose(['2', '3']) });
  for (let count = 0; count < submissionCount + spareCount; count++) {
    const isSpare = count >= submissionCount;
    actions.push({
      id: id++,
      at: isSpare ? submissionsEndAt + (count - submissionCount) * 800 : between(0, submissionsEndAt),
      kind: 'submit',
      user: choose(users),
      project: isSpare || chance(0.8) ? 'main' : 'side',
      hasKey: chance(0.7),
      zip: chance(0.1) ? 'large' : chance(0.25) ? 'small' : chance(0.04) ? 'broken' : 'none',
      uploadMs: chance(0.3) ? between(0, 20_000) : 0,
      cores: between(1, 4),
      runtimeHours: choose([0.005, 0.01, 0.02]),
      seconds: chance(0.2) ? between(25, 70) : between(1, 25),
      exitCode: chance(0.2) ? between(1, 4) : 0,
      isRefused: chance(0.05),
      cancelAfterMs: chance(0.15) ? between(0, 40_000) : null,
      deletesFiles: chance(0.2),
      isSpare,
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
    () => ({ id: id++, at: between(60_000, faultsEndAt), kind: 'close project' }),
    () => {
      // Another period follows: without it the later submissions would be refused.
      const end = chance(0.3) ? { afterMs: between(5000, 60_000), nextId: id++ } : null;
      return { id: id++, at: between(5000, faultsEndAt), kind: 'open period', memberSeconds: between(1000, 9000), end };
    },
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
      lostMs: chance(0.4) ? 0 : between(0, 15_000),
      downMs: between(500, 30_000),
    }),
    () => ({ at: between(10_000, faultsEndAt), kind: 'node failure', noticeMs: between(1000, 40_000) }),
    () => ({ at: between(1000, faultsEndAt), kind: 'full queue', ms: between(1000, 20_000) }),
    () => ({
      at: between(1000, faultsEndAt),
      kind: 'endpoint fails',
      status: choose([302, 404, 429, 503]),
      ms: between(1000, 40_000),
    }),
    () => ({ at: between(1000, faultsEndAt), kind: 'lost connections' }),
  ];
  const timedFaults = Array.from({ length: timedFaultCount }, () => choose(timed)());
  const clockOffsetsMs = Array.from({ length: servers }, () => between(-1500, 1500));
  const cluster = {
    clusterClockOffsetMs: between(-2000, 2000),
    listsEndsAfterMs: chance(0.3) ? between(1000, 20_000) : 0,
    forgetsRecords: chance(0.5),
  };
  return { seed, servers, actions, callFaults, timedFaults, clockOffsetsMs, ...cluster };
}

/** No two clocks, of servers and of the system, differ by more. */
export function maxSkewMs({ timedFaults, clockOffsetsMs, clusterClockOffsetMs }: Plan): number {
  const jumps = timedFaults.map((fault) => (fault.kind === 'clock jump' ? Math.abs(fault.ms) : 0));
  return [...jumps, ...clockOffsetsMs, clusterClockOffsetMs].reduce((total, ms) => total + Math.abs(ms), 0);
}

/** By how much the clock of a server goes back at most. */
export function maxBackwardMs({ timedFaults }: Plan): number {
  const jumps = timedFaults.map((fault) => (fault.kind === 'clock jump' ? Math.max(0, -fault.ms) : 0));
  return jumps.reduce((total, ms) => total + ms, 0);
}
