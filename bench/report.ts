import { availableParallelism, cpus, loadavg } from 'node:os';
import type { Row } from './benchmark.ts';
import type { Summary } from './statistics.ts';

export interface Report {
  at: string;
  machine: { processors: number; model: string; node: string; loadBefore: number; loadAfter: number };
  judged: boolean;
  rows: Row[];
  /** Benchmarks that could not run here, and why. */
  notRun: Record<string, string>;
}

export const loadAverage = () => loadavg()[0] ?? 0;

export function describeMachine(loadBefore: number): Report['machine'] {
  const model = cpus()[0]?.model ?? 'unknown';
  return { processors: availableParallelism(), model, node: process.version, loadBefore, loadAfter: loadAverage() };
}

/** Formats the rows as a Markdown table; rows that miss their threshold are marked. */
export function formatTable({ rows, judged, notRun }: Report): string {
  const head = ['scenario', 'baseline', 'Bursar', 'baseline value', 'figure (min to max)', 'threshold', ''];
  const lines = rows.map((row) => [
    row.scenario,
    row.baseline,
    formatWithUnit(row.ours.median, row.unit),
    row.theirs === null ? '' : formatWithUnit(row.theirs.median, row.unit),
    formatSummary(row.figure, row.figureUnit),
    formatThreshold(row),
    formatVerdict(row, judged),
  ]);
  const table = [head, ...lines];
  const widths = head.map((_, column) => Math.max(...table.map((line) => line[column]?.length ?? 0)));
  const formatRow = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`;
  const separator = formatRow(widths.map((width) => '-'.repeat(width)));
  const missing = Object.entries(notRun).map(([name, reason]) => `NOT RUN: ${name}: ${reason}`);
  return [formatRow(head), separator, ...lines.map(formatRow), ...missing].join('\n');
}

const formatWithUnit = (value: number, unit: string) => `${formatNumber(value)} ${unit}`;

const formatSummary = ({ median, min, max }: Summary, unit: string) =>
  `${formatNumber(median)} ${unit} (${formatNumber(min)} to ${formatNumber(max)})`;

function formatNumber(value: number): string {
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en');
  return value.toPrecision(value < 1 ? 2 : 3);
}

function formatThreshold({ threshold, figureUnit }: Row): string {
  const [kind = '', value] = Object.entries(threshold)[0] ?? [];
  const symbols: Record<string, string> = { atLeast: '≥', atMost: '≤', equalWithin: 'equal ±', aim: 'aim <' };
  return `${symbols[kind]} ${value} ${figureUnit}`;
}

function formatVerdict({ met, threshold, figure }: Row, judged: boolean): string {
  if (!judged) return '';
  if ('aim' in threshold) return figure.median < threshold.aim ? 'aim met' : 'aim missed';
  return met ? 'met' : '**MISSED**';
}
