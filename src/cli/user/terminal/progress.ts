import { formatBytes } from '../../../domain/format-amount.ts';
import type { CommandEnvironment } from '../command-environment.ts';
import { formatDuration } from './time.ts';

export interface TransferState {
  doneBytes: number;
  /** Null if the size is not known before. */
  totalBytes: number | null;
  /** Null before there is anything to measure. */
  bytesPerSecond: number | null;
}

const barWidth = 24;
const redrawMs = 100;
/** The speed is that of the last seconds, so that the time left follows a network that becomes slower. */
const speedWindowMs = 5000;
const clearLine = '\r\u001b[K';

/** Formats one line: a bar, the share, the bytes, the speed and the time left, as far as they fit into the width. */
export function formatProgress(label: string, { doneBytes, totalBytes, bytesPerSecond }: TransferState, width: number) {
  const hasTotal = totalBytes !== null && totalBytes > 0;
  const share = hasTotal ? Math.min(1, doneBytes / totalBytes) : 0;
  const filled = Math.round(share * barWidth);
  const parts = [
    label,
    ...(hasTotal ? [`${String(Math.floor(share * 100)).padStart(3)} %`] : []),
    hasTotal ? `${formatBytes(doneBytes)} of ${formatBytes(totalBytes)}` : formatBytes(doneBytes),
    ...(bytesPerSecond === null ? [] : [`${formatBytes(Math.round(bytesPerSecond))}/s`]),
    ...(hasTotal && bytesPerSecond ? [`${formatDuration((totalBytes - doneBytes) / bytesPerSecond)} left`] : []),
  ];
  while (parts.length > 2 && parts.join('  ').length >= width) parts.pop();
  const bar = `[${'#'.repeat(filled)}${'-'.repeat(barWidth - filled)}]`;
  const withBar = [label, bar, ...parts.slice(1)].join('  ');
  return hasTotal && withBar.length < width ? withBar : parts.join('  ').slice(0, width - 1);
}

/** The progress of a transfer, drawn in place on a terminal. In a pipe, and without a cursor, nothing is drawn. */
export interface Progress {
  /** A repeated transfer begins again with fewer bytes. */
  update(doneBytes: number, totalBytes: number | null): void;
  /** Removes the line. */
  end(): void;
}

export function createProgress(
  { stderr: stream, env, now }: Pick<CommandEnvironment, 'stderr' | 'env' | 'now'>,
  label: string,
): Progress {
  if (stream.isTTY !== true || env.TERM === 'dumb') return { update: () => undefined, end: () => undefined };
  let drawnAt = Number.NEGATIVE_INFINITY;
  let samples: { at: number; bytes: number }[] = [];

  function measureSpeed(at: number, bytes: number): number | null {
    const last = samples.at(-1);
    if (last !== undefined && bytes < last.bytes) samples = [];
    samples.push({ at, bytes });
    samples = samples.filter((sample) => at - sample.at <= speedWindowMs);
    const [first] = samples;
    return first === undefined || at - first.at < 500 ? null : ((bytes - first.bytes) / (at - first.at)) * 1000;
  }

  return {
    update(doneBytes, totalBytes) {
      const at = now();
      if (at - drawnAt < redrawMs) return;
      drawnAt = at;
      const bytesPerSecond = measureSpeed(at, doneBytes);
      const line = formatProgress(label, { doneBytes, totalBytes, bytesPerSecond }, stream.columns ?? 80);
      stream.write(`${clearLine}${line}`);
    },
    end() {
      if (drawnAt !== Number.NEGATIVE_INFINITY) stream.write(clearLine);
    },
  };
}
