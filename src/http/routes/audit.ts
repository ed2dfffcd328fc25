import type { FastifyInstance } from 'fastify';
import Type, { type Static } from 'typebox';
import type { AuditTrail } from '../../services/identity/audit-trail.ts';
import { describeRoute } from '../openapi/describe-route.ts';
import { parseRangeTime } from '../request/parse-time.ts';
import { withoutNul } from '../request/path-params.ts';
import { describeTable, exportFormatQuery, sendBatches, tableFormat } from '../response/tables.ts';
import { addResource } from './resource.ts';

const columns = [
  'id',
  'at',
  'actor',
  'address',
  'token_id',
  'session_id',
  'request_id',
  'action',
  'subject',
  'details',
  'hash',
] as const;

const optionalText = (description: string) => Type.Optional(Type.String({ maxLength: 500, description }));

const AuditQuery = Type.Object({
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1000,
      description: 'Maximum number of records. Default: 100 as JSON, all in the other formats.',
    }),
  ),
  before: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'The id of the last record of the page before: only the older ones.',
    }),
  ),
  actor: optionalText('Only actions of this user. `anonymous`: of requests without valid credentials.'),
  action: optionalText('Only this action, such as `grant.top_up`, or family of actions, such as `grant`.'),
  subject: optionalText('Only actions on this subject, such as `hpc_one/climate`, or on what is below it.'),
  address: optionalText('Only actions from this IP address.'),
  request_id: optionalText('Only actions of the request with this X-Request-Id.'),
  from: optionalText('Start, ISO 8601.'),
  to: optionalText('End, ISO 8601, exclusive.'),
  ...exportFormatQuery,
});

/** The audit trail, for reading and for export. */
export function auditRoutes(app: FastifyInstance, audit: AuditTrail): void {
  addResource(app, '/admin/audit/', {
    GET: {
      access: { action: 'audit.read', reach: 'others' },
      schema: {
        ...describeRoute('administration', 'listAuditRecords', 'List the audit trail, newest first', {
          200: describeTable(Type.Array(Type.Ref('AuditRecord')), 'The records.', columns, { ndjson: true }),
        }),
        description:
          'Sign-ins, refused requests, and changes to tokens, users, projects and quotas. Records are never changed: each ' +
          'carries a hash over the one before it, and `bursar audit verify` checks all of them. Equal refused requests ' +
          'within a minute are one record, with their number.',
        querystring: AuditQuery,
      },
      handler: (request, reply) => {
        const { limit, before, from, to, ...query } = request.query as Static<typeof AuditQuery>;
        const filter = {
          actor: query.actor && withoutNul(query.actor),
          action: query.action && withoutNul(query.action),
          subject: query.subject && withoutNul(query.subject),
          address: query.address && withoutNul(query.address),
          requestId: query.request_id && withoutNul(query.request_id),
          ...parseRangeTime('from', from),
          ...parseRangeTime('to', to),
        };
        const defaultLimit = tableFormat(request) === 'json' ? 100 : Number.POSITIVE_INFINITY;
        const batches = audit.read(filter, { limit: limit ?? defaultLimit, before });
        return sendBatches(request, reply, batches, columns);
      },
    },
  });
}
