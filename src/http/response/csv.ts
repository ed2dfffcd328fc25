import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
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

const csvType = 'text/csv; charset=utf-8';

export function sendCsv(reply: FastifyReply, rows: readonly Row[], columns: readonly string[]): FastifyReply {
  const text = formatLine(columns) + rows.map((row) => formatRow(row, columns)).join('');
  return reply.header('content-type', csvType).send(Buffer.from(text));
}

/** Sends rows as JSON or CSV. Other requests are handled between two batches. */
export function sendBatches(
  request: FastifyRequest,
  reply: FastifyReply,
  batches: Iterable<readonly Row[]>,
  columns: readonly string[],
): FastifyReply {
  const isCsv = wantsCsv(request);
  const batchSeparator = isCsv ? '' : ',';

  async function* text(): AsyncGenerator<string> {
    yield isCsv ? formatLine(columns) : '[';
    let separator = '';
    for (const batch of batches) {
      if (batch.length === 0) continue;
      const rows = batch.map((row) => (isCsv ? formatRow(row, columns) : JSON.stringify(row)));
      yield separator + rows.join(batchSeparator);
      separator = batchSeparator;
      await setImmediate();
    }
    if (!isCsv) yield ']';
  }
  reply.header('content-type', isCsv ? csvType : 'application/json; charset=utf-8');
  return reply.send(Readable.from(text(), { objectMode: false }));
}

/** CSV: RFC 4180. */
const formatLine = (cells: readonly unknown[]) => `${cells.map(formatCell).join(',')}\r\n`;
const formatRow = (row: Row, columns: readonly string[]) => formatLine(columns.map((column) => row[column]));

function formatCell(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value !== 'string') return String(value);
  // A spreadsheet would run these as a formula, and users choose titles and reasons.
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
