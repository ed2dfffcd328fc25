import { escapeControls } from './server/log-text.ts';

/** Aligns the cells of the rows. The first row is the header. */
export function formatTable(table: readonly string[][]): string {
  // Users choose some of the text, such as names of tokens.
  const rows = table.map((row) => row.map((cell) => escapeControls(cell).replaceAll('\n', '\\n')));
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? '').length)));
  const line = (row: string[]) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ');
  return `${rows.map((row) => line(row).trimEnd()).join('\n')}\n`;
}
