import { pipeline, type Readable } from 'node:stream';
import pLimit, { type LimitFunction } from 'p-limit';
import type { Shell } from '../../../shell/shell.ts';
import { timeoutError } from '../../../shell/shell-errors.ts';
import { takeSlot } from '../../../shell/slot.ts';
import { idleTimeout } from '../file-streams.ts';

/** The output of a script: its first line, and the rest as a stream. */
export interface ScriptOutput {
  firstLine: string;
  rest: Readable;
}

const stalled = 'The transfer stalled for too long. Try again later; a download can be resumed with a Range header.';

export interface ScriptRunnerOptions {
  /** The number of streams that may be open, because an ssh connection allows few sessions. */
  concurrency: number;
  /** Time limit for the first line, including the wait for a slot: the file system may hang. */
  timeoutMs: number;
  /** A stream that stalls this long is ended, because others may be waiting for its slot. */
  idleTimeoutMs: number;
}

/**
 * Returns a function that runs a script and streams its output. Further calls than `concurrency` wait until a stream
 * closes or their signal is aborted. Returns undefined if the first line is `-`: then the file or folder does not exist.
 */
export function createScriptRunner(shell: Shell, { concurrency, timeoutMs, idleTimeoutMs }: ScriptRunnerOptions) {
  const limit = pLimit(concurrency);
  return async (script: string, args: readonly string[], signal: AbortSignal): Promise<ScriptOutput | undefined> => {
    const timeout = new AbortController();
    const timer = setTimeout(() => timeout.abort(), timeoutMs);
    const anySignal = AbortSignal.any([signal, timeout.signal]);
    try {
      const output = await startWithinLimit(limit, anySignal, () =>
        shell.stream(['sh', '-c', script, 'sh', ...args], { signal: anySignal }),
      );
      const firstLine = await readFirstLine(output);
      if (firstLine !== '-')
        return { firstLine, rest: pipeline(output, idleTimeout(idleTimeoutMs, stalled), () => undefined) };
      output.resume();
      return undefined;
    } catch (error) {
      throw timeout.signal.aborted ? timeoutError(`The file system of ${shell.hostLabel}`, timeoutMs) : error;
    } finally {
      clearTimeout(timer);
    }
  };
}

/** Starts a stream when a slot is free, and frees the slot when the stream is closed. */
async function startWithinLimit(
  limit: LimitFunction,
  signal: AbortSignal,
  startStream: () => Promise<Readable>,
): Promise<Readable> {
  const freeSlot = await takeSlot(limit, signal);
  try {
    return (await startStream()).once('close', freeSlot);
  } catch (error) {
    freeSlot();
    throw error;
  }
}

/** Reads the first line of a stream. The bytes after it stay in the stream. */
async function readFirstLine(stream: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  for (;;) {
    const chunk: Buffer | null = stream.read();
    if (chunk === null) {
      if (stream.errored) throw stream.errored;
      if (stream.readableEnded || stream.destroyed) return '';
      await waitUntilReadable(stream);
      continue;
    }
    const end = chunk.indexOf('\n');
    chunks.push(end === -1 ? chunk : chunk.subarray(0, end));
    if (end === -1) continue;
    if (end + 1 < chunk.length) stream.unshift(chunk.subarray(end + 1));
    return Buffer.concat(chunks).toString('utf8');
  }
}

async function waitUntilReadable(stream: Readable): Promise<void> {
  const events = ['readable', 'end', 'close'] as const;
  await new Promise<void>((resolve, reject) => {
    const settle = (action: () => void) => {
      for (const event of events) stream.off(event, onEvent);
      stream.off('error', onError);
      action();
    };
    const onEvent = () => settle(resolve);
    const onError = (error: Error) => settle(() => reject(error));
    for (const event of events) stream.once(event, onEvent);
    stream.once('error', onError);
  });
}
