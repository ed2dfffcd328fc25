// Virtual time and seeded random numbers. Import this before anything of src/.
//
// The globals are replaced instead of passing a clock around, for the reasons in docs/simulation.md. An `AsyncLocalStorage`
// knows to which simulated server a task belongs.
import { AsyncLocalStorage } from 'node:async_hooks';
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers';
import timersPromises from 'node:timers/promises';

/** A server that is simulated: a task of it runs only while it is alive and not paused. */
export interface SimulatedProcess {
  name: string;
  isDead: boolean;
  /** In virtual time. */
  pausedUntil: number;
  /** Difference between the clock of this host and that of the database. */
  clockOffsetMs: number;
  /** Closed when it is killed. */
  openFiles: Set<{ close(): unknown }>;
  kill(place: string): void;
}

export interface TaskContext {
  process: SimulatedProcess;
  /** Whether the task serves a request, in contrast to background work. */
  isRequest: boolean;
}

interface Task {
  at: number;
  /** Orders tasks of the same time: random for timers, so that any may come first. Immediates keep their order. */
  tie: number;
  seq: number;
  run: (() => void) | undefined;
  context: TaskContext | undefined;
}

const realDate = Date;
const realSetImmediate = setImmediate;

export const tasks = new AsyncLocalStorage<TaskContext | undefined>();

/** Virtual time begins in the past, so that real modification times of files are later. */
const epoch = realDate.UTC(2020, 0, 1);
const immediateTie = -1;

let now = 0;
let seq = 0;
let queue: Task[] = [];
let random = createRandom(0);
/** The server that is in a transaction. SQLite allows one, so no other server runs meanwhile. */
let writer: SimulatedProcess | undefined;

export const virtualNow = () => now;
export const randomNumber = () => random();
export const randomBetween = (min: number, max: number) => min + random() * (max - min);
export const currentWriter = () => writer;
export function setWriter(process: SimulatedProcess | undefined): void {
  writer = process;
}

/** Sets virtual time to 0 and drops all tasks. */
export function resetTime(seed: number): void {
  now = 0;
  seq = 0;
  queue = [];
  random = createRandom(seed);
  writer = undefined;
}

/** Mulberry32: small, fast, and the same on every machine. */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
}

function isBefore(a: Task, b: Task): boolean {
  if (a.at !== b.at) return a.at < b.at;
  return a.tie === b.tie ? a.seq < b.seq : a.tie < b.tie;
}

/** Keeps the queue in order. The next task is the last one. */
function push(task: Task): void {
  let [low, high] = [0, queue.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(task, queue[middle] as Task)) low = middle + 1;
    else high = middle;
  }
  queue.splice(low, 0, task);
}

function schedule(run: () => void, delayMs: number, tie: number, context = tasks.getStore()): Task {
  const task = { at: now + delayMs, tie, seq: seq++, run, context };
  push(task);
  return task;
}

/** What `setTimeout` and `setInterval` return. */
class VirtualTimer {
  readonly #run: () => void;
  readonly #delayMs: number;
  readonly #context = tasks.getStore();
  #isInterval: boolean;
  #task: Task | undefined;

  constructor(run: () => void, delayMs: number | undefined, isInterval: boolean) {
    this.#run = run;
    this.#delayMs = Math.max(1, Number(delayMs) || 1);
    this.#isInterval = isInterval;
    this.refresh();
  }

  refresh(): this {
    if (this.#task) this.#task.run = undefined;
    const run = () => {
      this.#task = undefined;
      if (this.#isInterval) this.refresh();
      this.#run();
    };
    this.#task = schedule(run, this.#delayMs, random(), this.#context);
    return this;
  }

  close(): void {
    this.#isInterval = false;
    if (this.#task) this.#task.run = undefined;
    this.#task = undefined;
  }

  ref = () => this;
  unref = () => this;
  hasRef = () => true;
  [Symbol.dispose]() {
    this.close();
  }
}

const clear = (timer: VirtualTimer | undefined) => timer?.close?.();

const virtualTimers = {
  setTimeout: (run: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) =>
    new VirtualTimer(() => run(...args), ms, false),
  setInterval: (run: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) =>
    new VirtualTimer(() => run(...args), ms, true),
  setImmediate: (run: (...args: unknown[]) => void, ...args: unknown[]) => {
    const task = schedule(() => run(...args), 0, immediateTie);
    return {
      close() {
        task.run = undefined;
      },
    };
  },
  clearTimeout: clear,
  clearInterval: clear,
  clearImmediate: clear,
};

export function sleep<T = void>(ms?: number, value?: T, options: { signal?: AbortSignal } = {}): Promise<T> {
  const { signal } = options;
  return new Promise((resolve, reject) => {
    const abort = () => {
      timer?.close();
      reject(Object.assign(new Error('The operation was aborted'), { name: 'AbortError', code: 'ABORT_ERR' }));
    };
    let timer: VirtualTimer | undefined;
    if (signal?.aborted) return abort();
    timer = new VirtualTimer(
      () => {
        signal?.removeEventListener('abort', abort);
        resolve(value as T);
      },
      ms,
      false,
    );
    signal?.addEventListener('abort', abort, { once: true });
  });
}

const clock = () => Math.floor(epoch + now + (tasks.getStore()?.process.clockOffsetMs ?? 0));

/** The time of the database, which is the same for all servers. */
export const databaseTime = () => Math.floor(epoch + now);

class VirtualDate extends realDate {
  constructor(...args: unknown[]) {
    if (args.length === 0) super(clock());
    else super(...(args as [number]));
  }

  static override now = clock;
}

/** Replaces clocks, timers and random numbers of this process, for ever. */
export function installVirtualTime(): void {
  Object.assign(globalThis, virtualTimers, { Date: VirtualDate });
  Object.assign(timers, virtualTimers);
  Object.assign(timersPromises, {
    setTimeout: sleep,
    setImmediate: (value: unknown) => new Promise((resolve) => virtualTimers.setImmediate(() => resolve(value))),
  });
  Object.defineProperty(performance, 'now', { value: () => now, configurable: true });
  Math.random = () => random();
  AbortSignal.timeout = (ms) => {
    const controller = new AbortController();
    new VirtualTimer(() => controller.abort(new DOMException('timed out', 'TimeoutError')), ms, false);
    return controller.signal;
  };
  const randomBytes = (size: number) => Buffer.from(Array.from({ length: size }, () => Math.floor(random() * 256)));
  const randomUUID = () => {
    const hex = randomBytes(16).toString('hex');
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`;
  };
  Object.assign(crypto, { randomBytes, randomUUID });
  syncBuiltinESMExports();
}

const turn = () => new Promise((resolve) => realSetImmediate(resolve));
/** Resources that exist without work in progress. */
const idleResources = new Set(['Immediate', 'PipeWrap', 'TTYWrap', 'Timeout', 'MessagePort', 'TickObject']);
const hasRealWork = () => process.getActiveResourcesInfo().some((type) => !idleResources.has(type));

/**
 * Runs tasks until `isDone`. Real operations on files end before virtual time goes on, which makes their duration irrelevant.
 * Returns false if that does not happen until `maxMs`.
 */
export async function runUntil(isDone: () => boolean, maxMs = Number.POSITIVE_INFINITY): Promise<boolean> {
  for (;;) {
    await turn();
    while (hasRealWork()) await turn();
    if (isDone()) return true;
    const task = nextTask();
    if (task === undefined || task.at > maxMs) return false;
    if (task.run === undefined || task.context?.process.isDead) continue;
    const { pausedUntil = 0 } = task.context?.process ?? {};
    // A server is not paused within a transaction, because that would stop all others.
    if (pausedUntil > task.at && task.tie !== immediateTie) {
      task.at = pausedUntil;
      push(task);
      continue;
    }
    now = Math.max(now, task.at);
    tasks.run(task.context, task.run);
  }
}

/** The next task or, while a server is in a transaction, the next one of that server. */
function nextTask(): Task | undefined {
  if (writer === undefined) return queue.pop();
  const index = queue.findLastIndex(({ context }) => context?.process === writer);
  return index < 0 ? undefined : queue.splice(index, 1)[0];
}

/** Runs a function in virtual time to its end. For preparations and checks, outside a history. */
export async function runToEnd<T>(work: () => Promise<T>): Promise<T> {
  let result: { value: T } | { error: unknown } | undefined;
  tasks.run(undefined, work).then(
    (value) => {
      result = { value };
    },
    (error) => {
      result = { error };
    },
  );
  await runUntil(() => result !== undefined);
  if (result === undefined) throw new Error('the work waits for something that never comes');
  if ('error' in result) throw result.error;
  return result.value;
}
