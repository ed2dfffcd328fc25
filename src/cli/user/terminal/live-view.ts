import type { Context } from '../context.ts';
import { shorten, textWidth } from './text.ts';

/** Lines at the end of the terminal's output that are redrawn in place. */
export interface LiveView {
  /** Redraws the lines when they have changed, and when the terminal gets another size. */
  update(): void;
  /** Draws the final lines and leaves them there. */
  end(): void;
}

const hideCursor = '\u001b[?25l';
const showCursor = '\u001b[?25h';
/** Relative times change while nothing happens. */
const refreshMs = 1000;

/**
 * Shows lines and redraws only those: nothing above them changes, and the screen is never cleared. Lines are shortened to the
 * width of the terminal, and a view that is higher than the terminal ends with the number of hidden lines.
 */
export function createLiveView({ stdout, style, signal }: Context, render: (columns: number) => string[]): LiveView {
  let drawn: string[] = [];
  let hasEnded = false;
  const timer = setInterval(() => draw(), refreshMs);
  const onResize = () => draw(true);
  stdout.on('resize', onResize);
  // A signal that ends the process must not leave the terminal without a cursor.
  const onExit = () => void stdout.write(showCursor);
  process.once('exit', onExit);
  signal.addEventListener('abort', end, { once: true });
  stdout.write(hideCursor);

  function draw(isForced = false): void {
    if (hasEnded) return;
    const columns = stdout.columns ?? 80;
    const lines = fit(render(columns), columns, (stdout.rows ?? 24) - 1);
    if (!isForced && lines.join('\n') === drawn.join('\n')) return;
    stdout.write(`${toStart(drawn, columns)}${lines.map((line) => `${line}\u001b[K\n`).join('')}\u001b[J`);
    drawn = lines;
  }

  function fit(lines: string[], columns: number, maxRows: number): string[] {
    const shown = lines.length <= maxRows ? lines : lines.slice(0, Math.max(1, maxRows - 1));
    const hidden = lines.length - shown.length;
    const more = hidden > 0 ? [style('dim', `… and ${hidden} more`)] : [];
    return [...shown, ...more].map((line) => shorten(line, columns));
  }

  function end(): void {
    if (hasEnded) return;
    draw();
    hasEnded = true;
    clearInterval(timer);
    stdout.off('resize', onResize);
    process.off('exit', onExit);
    signal.removeEventListener('abort', end);
    stdout.write(showCursor);
  }

  return { update: () => draw(), end };
}

/** Moves the cursor to the first of the drawn lines. A terminal that became narrower has wrapped them. */
function toStart(drawn: readonly string[], columns: number): string {
  const rows = drawn.reduce((sum, line) => sum + Math.max(1, Math.ceil(textWidth(line) / columns)), 0);
  return rows === 0 ? '' : `\u001b[${rows}A\r`;
}
