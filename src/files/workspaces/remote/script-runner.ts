import { once } from 'node:events';
import { pipeline, type Readable } from 'node:stream';
import type { Slots } from '../../../domain/slots.ts';
import { type Shell, timeoutError, unavailableError } from '../../../shell/shell.ts';
import { idleTimeout, type MinimumRate, minimumRate } from '../file-streams.ts';
import type { WorkspaceReading } from '../workspace-reader.ts';

/** The output of a script: its first line, and the rest as a stream. */
export interface ScriptOutput {
  firstLine: string;
  rest: Readable;
}

const stalled = 'The transfer stalled for too long. Try again later; a download can be resumed with a Range header.';
const tooSlow =
  'The transfer was too slow while others waited for theirs. Try again later; a download can be resumed with a Range header.';

export interface ScriptRunnerOptions {
  /** By user, for the streams that may be open, because an ssh connection allows few sessions. */
  slots: Slots;
  /** Time limit for the first line, including the wait for a slot: the file system may hang. */
  timeoutMs: number;
  /** A stream that stalls this long is ended. */
  idleTimeoutMs: number;
  /** A stream that is slower than this is ended while others wait for a slot. */
  minRate: Omit<MinimumRate, 'isRequired'>;
}

/** Runs a script for a user. Returns undefined if its first line is `-`: then the file or folder does not exist. */
export type RunScript = (
  script: string,
  args: readonly string[],
  reading: WorkspaceReading,
) => Promise<ScriptOutput | undefined>;

/**
 * Returns a function that runs a script and streams its output. It waits for a slot, which is free again when the stream
 * closes, or until its signal is aborted.
 */
export function createScriptRunner(shell: Shell, options: ScriptRunnerOptions): RunScript {
  const { slots, timeoutMs, idleTimeoutMs } = options;
  const minRate = { ...options.minRate, isRequired: slots.isContended };

  /** Starts a script in a slot, and reads its first line. */
  async function start(argv: readonly string[], signal: AbortSignal, freeSlot: () => void) {
    let output: Readable;
    try {
      output = (await shell.stream(argv, { signal })).once('close', freeSlot);
    } catch (error) {
      freeSlot();
      throw error;
    }
    const firstLine = await readFirstLine(output);
    if (firstLine !== '-') {
      const guards = [idleTimeout(idleTimeoutMs, stalled), minimumRate(minRate, tooSlow)] as const;
      return { firstLine, rest: pipeline(output, ...guards, () => undefined) };
    }
    output.resume();
    return undefined;
  }

  return async (script, args, { signal, user }) => {
    const timeout = new AbortController();
    const timer = setTimeout(() => timeout.abort(), timeoutMs);
    const anySignal = AbortSignal.any([signal, timeout.signal]);
    let freeSlot: (() => void) | undefined;
    try {
      freeSlot = await slots.take({ key: user, signal: anySignal });
      return await start(['sh', '-c', script, 'sh', ...args], anySignal, freeSlot);
    } catch (error) {
      if (!timeout.signal.aborted) throw error;
      if (freeSlot === undefined)
        throw unavailableError(`Too many transfers from ${shell.hostLabel} are in progress. Try again later.`);
      throw timeoutError(`The file system of ${shell.hostLabel}`, timeoutMs);
    } finally {
      clearTimeout(timer);
    }
  };
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

/** Resolves also at the end of the stream, and rejects at its error. */
async function waitUntilReadable(stream: Readable): Promise<void> {
  const waiting = new AbortController();
  try {
    await Promise.race(['readable', 'close'].map((event) => once(stream, event, { signal: waiting.signal })));
  } finally {
    waiting.abort();
  }
}
