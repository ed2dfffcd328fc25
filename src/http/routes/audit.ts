import Type from 'typebox';
import { AuditSchema } from '../../contract/administration.ts';
import { readAuditTrail } from '../../services/identity/audit-trail.ts';
import { operation, operations, others } from '../operation.ts';
import { optionalTime, pageQuery, toTimeRange } from '../request/list-query.ts';
import { describeTable, exportFormatQuery, sendBatches, tableFormat } from '../response/tables.ts';
import type { RouteContext } from './context.ts';

const columns = Object.keys(AuditSchema.properties);
const optionalText = (description: string) => Type.Optional(Type.String({ maxLength: 500, description }));

/** The audit trail, for reading and for export. */
export const auditOperations = (context: RouteContext) =>
  operations('administration', {
    listAuditRecords: operation({
      route: 'GET /admin/audit/',
      access: others('audit.read'),
      summary: 'List the audit trail, newest first',
      description:
        'Sign-ins, refused requests, and changes to tokens, users, projects and quotas. Records are never changed: each ' +
        'carries a hash over the one before it, and `bursar audit verify` checks all of them. Equal refused requests ' +
        'within a minute are one record, with their number.',
      query: {
        ...pageQuery('records', 1000, '100 as JSON, all in the other formats'),
        actor: optionalText('Only actions of this user. `anonymous`: of requests without valid credentials.'),
        action: optionalText('Only this action, such as `grant.top_up`, or family of actions, such as `grant`.'),
        subject: optionalText('Only actions on this subject, such as `hpc_one/climate`, or on what is below it.'),
        address: optionalText('Only actions from this IP address.'),
        request_id: optionalText('Only actions of the request with this X-Request-Id.'),
        from: optionalTime('Start, ISO 8601.'),
        to: optionalTime('End, ISO 8601, exclusive.'),
        ...exportFormatQuery,
      },
      responses: { 200: describeTable(Type.Array(AuditSchema), 'The records.', columns, true) },
      handler: (request, reply) => {
        const { limit, before, actor, action, subject, address, request_id: requestId } = request.query;
        const filter = { actor, action, subject, address, requestId, ...toTimeRange(request.query) };
        const defaultLimit = tableFormat(request) === 'json' ? 100 : Number.POSITIVE_INFINITY;
        const records = readAuditTrail(context, filter, { limit: limit ?? defaultLimit, before });
        return sendBatches(request, reply, records, columns);
      },
    }),
  });
