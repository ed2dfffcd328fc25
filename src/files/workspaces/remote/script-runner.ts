import type { Readable } from 'node:stream';
import pLimit, { type LimitFunction } from 'p-limit';
import type { Shell } from '../../../shell/shell.ts';
import { requestSlot } from '../../../shell/slot.ts';

/** The output of a script: its first line, and the rest as a stream. */
export interface ScriptOutput {
  firstLine: string;
  rest: Readable;
}

/** Time limit for the first line. A script would wait forever if a job replaced a file with a pipe. */
const firstLineTimeoutMs = 60_000;

/**
 * Returns a function that runs a script and streams its output. At most `concurrency` streams are open, because an ssh
 * connection allows few sessions. Further calls wait until a stream closes or their signal is aborted. Returns
 * undefined if the first line is `-`: then the file or folder does not exist.
 */
export function createScriptRunner(shell: Shell, concurrency: number) {
  const limit = pLimit(concurrency);
  return async (script: string, args: readonly string[], signal: AbortSignal): Promise<ScriptOutput | undefined> => {
    const timeout = new AbortController();
    const timer = setTimeout(() => timeout.abort(), firstLineTimeoutMs);
    const anySignal = AbortSignal.any([signal, timeout.signal]);
    try {
      const output = await startWithinLimit(limit, anySignal, () =>
        shell.stream(['sh', '-c', script, 'sh', ...args], { signal: anySignal }),
      );
      const firstLine = await readFirstLine(output);
      if (firstLine !== '-') return { firstLine, rest: output };
      output.resume();
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
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort);
  try {
    signal.throwIfAborted();
    await Promise.race([slot.taken, aborted]);
    const stream = await startStream();
    return stream.once('close', slot.free);
  } catch (error) {
    slot.free();
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
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
