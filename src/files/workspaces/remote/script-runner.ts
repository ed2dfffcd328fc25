import type { Readable } from 'node:stream';
import type { Shell } from '../../../shell/shell.ts';
import { createTurns } from '../../../shell/turns.ts';
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
  const turns = createTurns(atATime);
  return async (script: string, args: readonly string[], signal: AbortSignal): Promise<ScriptOutput | undefined> => {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), answerMs);
    const either = AbortSignal.any([signal, late.signal]);
    try {
      const rest = await inTurn(turns, either, () =>
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

/** Starts a stream when its turn has come, and gives the turn away when the stream is closed. */
async function inTurn(
  turns: ReturnType<typeof createTurns>,
  signal: AbortSignal,
  startStream: () => Promise<Readable>,
): Promise<Readable> {
  const { turn, leave } = turns.take();
  const { promise: interrupted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort);
  try {
    signal.throwIfAborted();
    await Promise.race([turn, interrupted]);
    const stream = await startStream();
    return stream.once('close', leave);
  } catch (error) {
    leave();
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
