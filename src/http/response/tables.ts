import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import Type, { type TSchema } from 'typebox';

type Format = 'json' | 'csv' | 'ndjson';

const toFormatQuery = (formats: Format[], description: string) => ({
  format: Type.Optional(Type.Enum(formats, { description })),
});

export const formatQuery = toFormatQuery(
  ['json', 'csv'],
  'Default: `csv` with the header `Accept: text/csv`, otherwise `json`.',
);

/** For tables that are exported in parts, or as a whole. */
export const exportFormatQuery = toFormatQuery(
  ['json', 'csv', 'ndjson'],
  'Default: by the header `Accept`: `text/csv`, `application/x-ndjson`, otherwise `json`.',
);

const contentTypes: Record<Format, string> = {
  json: 'application/json; charset=utf-8',
  csv: 'text/csv; charset=utf-8',
  ndjson: 'application/x-ndjson; charset=utf-8',
};

/** The response for the OpenAPI document. */
export function describeTable(schema: TSchema, description: string, columns: readonly string[], ndjson = false) {
  const csv = {
    schema: Type.String({ description: `Columns: ${columns.join(', ')}.` }),
    example: `${columns.join(',')}\r\n`,
  };
  const lines = { schema: Type.String({ description: 'One JSON object per line.' }), example: '{}\n' };
  const content = { 'application/json': { schema }, 'text/csv': csv };
  return { description, content: ndjson ? { ...content, 'application/x-ndjson': lines } : content };
}

type Row = Readonly<Record<string, unknown>>;

export function tableFormat(request: FastifyRequest): Format {
  const { format } = request.query as { format?: Format };
  const { accept = '' } = request.headers;
  if (format !== undefined) return format;
  if (/^text\/csv\b/.test(accept)) return 'csv';
  return /^application\/x-ndjson\b/.test(accept) ? 'ndjson' : 'json';
}

/**
 * Sends rows in the wanted format, or as JSON if there are no columns. An error before the first rows is sent as a problem. Other
 * requests are handled between two batches.
 */
export function sendBatches(
  request: FastifyRequest,
  reply: FastifyReply,
  batches: Iterable<readonly Row[]> | AsyncIterable<readonly Row[]>,
  columns: readonly string[] = [],
): FastifyReply {
  const format = columns.length === 0 ? 'json' : tableFormat(request);
  const separator = format === 'json' ? ',' : '';
  const formatters: Record<Format, (row: Row) => string> = {
    json: (row) => JSON.stringify(row),
    csv: (row) => formatLine(columns.map((column) => row[column])),
    ndjson: (row) => `${JSON.stringify(row)}\n`,
  };

  async function* text(): AsyncGenerator<string> {
    let before = { json: '[', csv: formatLine(columns), ndjson: '' }[format];
    for await (const rows of batches) {
      if (rows.length === 0) continue;
      yield before + rows.map(formatters[format]).join(separator);
      before = separator;
      await setImmediate();
    }
    if (before !== separator) yield before;
    if (format === 'json') yield ']';
  }
  reply.header('content-type', contentTypes[format]);
  return reply.send(Readable.from(text(), { objectMode: false }));
}

/** CSV: RFC 4180. */
const formatLine = (cells: readonly unknown[]) => `${cells.map(formatCell).join(',')}\r\n`;

function formatCell(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'object') return formatCell(JSON.stringify(value));
  if (typeof value !== 'string') return String(value);
  // A spreadsheet would run these as a formula, and users choose titles and reasons.
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
