/** Rows as CSV (RFC 4180), with a header line of their keys. */
export function toCsv(rows: readonly Readonly<Record<string, unknown>>[], columns: readonly string[]): string {
  const line = (cells: readonly unknown[]) => `${cells.map(cell).join(',')}\r\n`;
  return line(columns) + rows.map((row) => line(columns.map((column) => row[column]))).join('');
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value !== 'string') return String(value);
  // A spreadsheet would take these for a formula, and titles and reasons are written by anybody.
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
