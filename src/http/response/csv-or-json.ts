import type { FastifyReply, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { toCsv } from './csv.ts';

export const formatQuery = {
  format: Type.Optional(Type.Enum(['json', 'csv'], { description: 'Or ask with `Accept: text/csv`.' })),
};

type Row = Readonly<Record<string, unknown>>;

/** Whether the caller wants a table for a spreadsheet. */
export function wantsCsv(request: FastifyRequest): boolean {
  const { format } = request.query as { format?: string };
  return format === 'csv' || (format === undefined && /^text\/csv\b/.test(request.headers.accept ?? ''));
}

export function sendCsv(reply: FastifyReply, rows: readonly Row[], columns: readonly string[]): FastifyReply {
  return reply.header('content-type', 'text/csv; charset=utf-8').send(Buffer.from(toCsv(rows, columns)));
}
