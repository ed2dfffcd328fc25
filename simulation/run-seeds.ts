import { spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { History } from './history.ts';

/** The result of a history, as `history-process.ts` prints it. */
export interface HistoryResult extends Omit<History, 'lines'> {
  servers: number;
  actions: number;
  plannedFaults: number;
  /** Only if a trace was asked for. */
  lines?: string[];
}

interface RunOptions {
  /** The folder with the file of the process: a copy, for a mutation. */
  folder?: URL;
  signal?: AbortSignal;
  onResult?(result: HistoryResult): void;
}

/** A process is fast after some histories, once V8 has compiled what runs often. */
const maxSeedsPerProcess = 250;

/** Runs the histories of the seeds from `first` to `last`, on all processors. */
export async function runSeeds(first: number, last: number, options: RunOptions = {}): Promise<HistoryResult[]> {
  const results: HistoryResult[] = [];
  const processes = availableParallelism();
  const seedsPerProcess = Math.min(maxSeedsPerProcess, Math.ceil((last - first + 1) / processes));
  let next = first;
  async function runProcesses(): Promise<void> {
    while (next <= last && !options.signal?.aborted) {
      const from = next;
      next = Math.min(last + 1, from + seedsPerProcess);
      for (const result of await runSeedsInOneProcess(from, next - 1, options)) results.push(result);
    }
  }
  await Promise.all(Array.from({ length: processes }, runProcesses));
  return results.sort((a, b) => a.seed - b.seed);
}

export async function runSeedsInOneProcess(
  first: number,
  last: number,
  options: RunOptions = {},
): Promise<HistoryResult[]> {
  return await runProcess(['run', String(first), String(last)], options);
}

/** Runs one history with its trace. If it fails, `shorten` makes it as short as possible. */
export async function traceSeed(seed: number, task: 'trace' | 'shorten'): Promise<HistoryResult> {
  const [result] = await runProcess([task, String(seed)], {});
  if (result === undefined) throw new Error(`seed ${seed} has no result`);
  return result;
}

async function runProcess(args: string[], options: RunOptions): Promise<HistoryResult[]> {
  const { folder = new URL('.', import.meta.url), signal, onResult } = options;
  const program = fileURLToPath(new URL('history-process.ts', folder));
  const child = spawn(process.execPath, [program, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, UV_THREADPOOL_SIZE: '1' },
    ...(signal && { signal }),
  });
  const ended = new Promise<number | null>((resolve) => {
    child.once('error', () => resolve(null));
    child.once('close', resolve);
  });
  const results: HistoryResult[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    const result = JSON.parse(line) as HistoryResult;
    results.push(result);
    onResult?.(result);
  }
  const code = await ended;
  if (code !== 0 && !signal?.aborted) throw new Error(`the process of ${args.join(' ')} ended with ${code}`);
  return results;
}
