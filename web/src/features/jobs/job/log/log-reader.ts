import { isTransient } from '../../../../client/bursar.ts';
import { hiddenLimitMs, untilShown, whenHiddenFor } from '../../../../client/tab-visibility.ts';
import type { JobSource, LogStream } from '../job-source.ts';
import { createLogBuffer, type LogBuffer } from './log-buffer.ts';

/** A longer log is read from this distance before its end. */
const tailBytes = 4_000_000;
/** A log from its start is read so far, and then on demand. */
const headBytes = 8_000_000;
const earlierBytes = 4_000_000;
const notifyMs = 60;
const maxRetryDelayMs = 5000;

/**
 * `reading`: the first bytes are on their way. `following`: the job runs, and new lines appear. `interrupted`: without a
 * connection, tries again. `paused`: there is more, which was not read. `complete`: the whole log of a job that has ended.
 */
export type LogStatus = 'reading' | 'following' | 'interrupted' | 'paused' | 'complete' | 'failed';

export interface LogView {
  status: LogStatus;
  error: unknown;
  /** Number of changes of the lines, because they are changed in place. */
  version: number;
  isLoadingEarlier: boolean;
}

export interface LogReader {
  buffer: LogBuffer;
  subscribe(listener: () => void): () => void;
  view(): LogView;
  /** Reads the part before the present one. Rejects if that fails, and can be called again. */
  loadEarlier(): Promise<void>;
  /** Goes on after a pause. */
  loadLater(): void;
  /** Starts again where a failure has ended the reading. */
  retry(): void;
  stop(): void;
}

export interface LogStart {
  stream: LogStream;
  /** Selects the part of a long log that is shown first. A log of moderate size is always read whole. */
  from: 'start' | 'end';
}

/** Reads a log into a buffer and follows it until the job has ended, across lost connections and restarts of the server. */
export function startLogReader(source: JobSource, { stream, from }: LogStart): LogReader {
  const abort = new AbortController();
  const { signal } = abort;
  const listeners = new Set<() => void>();
  let buffer = createLogBuffer(0);
  let view: LogView = { status: 'reading', error: undefined, version: 0, isLoadingEarlier: false };
  let isNotifying = false;
  let stopAt = Number.POSITIVE_INFINITY;

  function change(part: Partial<LogView>) {
    if (signal.aborted) return;
    view = { ...view, ...part };
    for (const listener of listeners) listener();
  }
  /** Lines arrive in many small parts: the page shows them together. */
  function changeLines() {
    if (isNotifying) return;
    isNotifying = true;
    setTimeout(() => {
      isNotifying = false;
      change({ version: view.version + 1 });
    }, notifyMs);
  }

  async function open() {
    const size = (await source.logSize(stream, signal)) ?? 0;
    if (from === 'start') stopAt = headBytes;
    else if (size > headBytes) buffer = createLogBuffer(size - tailBytes);
  }

  /** Returns whether the log is complete: it was read to the end of the job. */
  async function readOnce(readSignal: AbortSignal): Promise<boolean> {
    const response = await source.openLog({ stream, offset: buffer.end, follow: true, signal: readSignal });
    if (view.status !== 'following') change({ status: 'following', error: undefined });
    const reader = response.body?.getReader();
    try {
      for (;;) {
        const chunk = await reader?.read();
        if (chunk === undefined || chunk.done) return true;
        buffer.append(chunk.value);
        changeLines();
        if (buffer.end >= stopAt) return false;
      }
    } finally {
      reader?.cancel().catch(() => undefined);
    }
  }

  async function follow() {
    for (let failures = 0; !signal.aborted; ) {
      const before = buffer.end;
      const hidden = new AbortController();
      const stopWatching = whenHiddenFor(hiddenLimitMs, () => hidden.abort());
      try {
        const isComplete = await readOnce(AbortSignal.any([signal, hidden.signal]));
        change({ status: isComplete ? 'complete' : 'paused', version: view.version + 1 });
        return;
      } catch (error) {
        if (signal.aborted) return;
        if (hidden.signal.aborted) {
          await untilShown(signal).catch(() => undefined);
          continue;
        }
        // A response that is cut off is a TypeError of the browser.
        if (!isTransient(error)) return change({ status: 'failed', error });
        failures = buffer.end > before ? 0 : failures + 1;
        change({ status: 'interrupted', error });
        await new Promise((resolve) => setTimeout(resolve, Math.min(maxRetryDelayMs, 500 * 2 ** failures)));
      } finally {
        stopWatching();
      }
    }
  }

  async function run() {
    await open().catch(() => undefined);
    await follow();
  }
  void run();

  return {
    get buffer() {
      return buffer;
    },
    view: () => view,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async loadEarlier() {
      change({ isLoadingEarlier: true });
      try {
        const offset = Math.max(0, buffer.start - earlierBytes);
        const bytes = await readRange(source, stream, offset, buffer.start - offset, signal);
        buffer.prepend(bytes);
      } catch (error) {
        if (!signal.aborted) throw error;
      } finally {
        change({ isLoadingEarlier: false, version: view.version + 1 });
      }
    },
    loadLater() {
      stopAt = buffer.end + headBytes;
      void follow();
    },
    retry() {
      change({ status: 'reading', error: undefined });
      void follow();
    },
    stop: () => abort.abort(),
  };
}

/** Reads a part of a log. The rest of the response is not read. */
export async function readRange(
  source: JobSource,
  stream: LogStream,
  offset: number,
  length: number,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const response = await source.openLog({ stream, offset, signal });
  const bytes = new Uint8Array(length);
  let filled = 0;
  const reader = response.body?.getReader();
  while (reader !== undefined && filled < length) {
    const { done, value } = await reader.read();
    if (done) break;
    const part = value.subarray(0, length - filled);
    bytes.set(part, filled);
    filled += part.length;
  }
  reader?.cancel().catch(() => undefined);
  return bytes.subarray(0, filled);
}
