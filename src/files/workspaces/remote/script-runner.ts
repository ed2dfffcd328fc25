import type { Readable } from 'node:stream';
import pLimit, { type LimitFunction } from 'p-limit';
import type { Shell } from '../../../shell/shell.ts';
import { requestSlot } from '../../../shell/slot.ts';
import { readFirstLine } from './find-output.ts';

/** The first line of what a script says, and the rest of it as a stream. */
export interface ScriptOutput {
  line: string;
  rest: Readable;
}

/** How long a file system may take to answer; a pipe that a job puts in the place of a file never would. */
const answerMs = 60_000;

/**
 * Runs scripts whose answers are streams, so many at a time: a connection has room for few. The others wait, and give up
 * when their caller does. Answers with undefined where the script says that there is nothing.
 */
export function createScriptRunner(shell: Shell, atATime: number) {
  const limit = pLimit(atATime);
  return async (script: string, args: readonly string[], signal: AbortSignal): Promise<ScriptOutput | undefined> => {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), answerMs);
    const either = AbortSignal.any([signal, late.signal]);
    try {
      const rest = await startWithinLimit(limit, either, () =>
        shell.stream(['sh', '-c', script, 'sh', ...args], { signal: either }),
      );
      const line = await readFirstLine(rest);
      if (line !== '-') return { line, rest };
      rest.resume();
      return undefined;
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
  const slot = requestSlot(limit);
  const { promise: interrupted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort);
  try {
    signal.throwIfAborted();
    await Promise.race([slot.taken, interrupted]);
    const stream = await startStream();
    return stream.once('close', slot.free);
  } catch (error) {
    slot.free();
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
