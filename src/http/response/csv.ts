import type { FastifyReply, FastifyRequest } from 'fastify';
import Type, { type TSchema } from 'typebox';

export const formatQuery = {
  format: Type.Optional(
    Type.Enum(['json', 'csv'], { description: 'Default: `csv` with the header `Accept: text/csv`, otherwise `json`.' }),
  ),
};

/** The response for the OpenAPI document. */
export function describeTable(schema: TSchema, description: string, columns: readonly string[]) {
  const csv = {
    schema: Type.String({ description: `Columns: ${columns.join(', ')}.` }),
    example: `${columns.join(',')}\r\n`,
  };
  return { description, content: { 'application/json': { schema }, 'text/csv': csv } };
}

type Row = Readonly<Record<string, unknown>>;

export function wantsCsv(request: FastifyRequest): boolean {
  const { format } = request.query as { format?: string };
  return format === 'csv' || (format === undefined && /^text\/csv\b/.test(request.headers.accept ?? ''));
}

export function sendCsv(reply: FastifyReply, rows: readonly Row[], columns: readonly string[]): FastifyReply {
  return reply.header('content-type', 'text/csv; charset=utf-8').send(Buffer.from(toCsv(rows, columns)));
}

/** CSV (RFC 4180) with a header line. */
function toCsv(rows: readonly Row[], columns: readonly string[]): string {
  const formatLine = (cells: readonly unknown[]) => `${cells.map(formatCell).join(',')}\r\n`;
  return formatLine(columns) + rows.map((row) => formatLine(columns.map((column) => row[column]))).join('');
}

function formatCell(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value !== 'string') return String(value);
  // A spreadsheet would run these as a formula, and users choose titles and reasons.
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
