import { availableParallelism, cpus, loadavg } from 'node:os';
import type { Bar, Row } from './benchmark.ts';
import type { Spread } from './spread.ts';

export interface Report {
  at: string;
  machine: { processors: number; model: string; node: string; loadBefore: number; loadAfter: number };
  judged: boolean;
  rows: Row[];
  /** Benchmarks that could not run here, and why. */
  notRun: Record<string, string>;
}

export const loadNow = () => loadavg()[0] ?? 0;

export function machineFacts(loadBefore: number): Report['machine'] {
  const model = cpus()[0]?.model ?? 'unknown';
  return { processors: availableParallelism(), model, node: process.version, loadBefore, loadAfter: loadNow() };
}

/** One table, as Markdown: what is slower than its bar is marked. */
export function tableOf({ rows, judged, notRun }: Report): string {
  const head = ['what', 'yardstick', 'ours', 'yardstick’s', 'figure (spread)', 'bar', ''];
  const lines = rows.map((row) => [
    row.what,
    row.yardstick,
    withUnit(row.ours.median, row.unit),
    row.theirs === null ? '' : withUnit(row.theirs.median, row.unit),
    figureOf(row.figure, row.figureUnit),
    barOf(row),
    verdictOf(row, judged),
  ]);
  const all = [head, ...lines];
  const widths = head.map((_, column) => Math.max(...all.map((line) => line[column]?.length ?? 0)));
  const text = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`;
  const rule = text(widths.map((width) => '-'.repeat(width)));
  const missing = Object.entries(notRun).map(([name, why]) => `NOT RUN: ${name}: ${why}`);
  return [text(head), rule, ...lines.map(text), ...missing].join('\n');
}

const withUnit = (value: number, unit: string) => `${readable(value)} ${unit}`;

const figureOf = ({ median, min, max }: Spread, unit: string) =>
  `${readable(median)} ${unit} (${readable(min)} to ${readable(max)})`;

function readable(value: number): string {
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en');
  return value.toPrecision(value < 1 ? 2 : 3);
}

function barOf({ bar, figureUnit }: Row): string {
  const [[kind, value] = ['', 0]] = Object.entries(bar) as [keyof Bar | string, number][];
  const words: Record<string, string> = { atLeast: '≥', atMost: '≤', equalWithin: 'equal ±', aim: 'aim <' };
  return `${words[kind]} ${value} ${figureUnit}`;
}

function verdictOf({ met, bar, figure }: Row, judged: boolean): string {
  if (!judged) return '';
  if ('aim' in bar) return figure.median < bar.aim ? 'as aimed' : 'not as aimed';
  return met ? 'met' : '**SLOWER**';
}
