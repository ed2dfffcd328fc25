import type { FastifyReply } from 'fastify';
import Type from 'typebox';
import { ProjectAccountSchema, QuotaSchema, QuoteSchema, UsageSchema } from '../../contract/ledger.ts';
import { MovementSchema, StatementSchema } from '../../contract/statement.ts';
import { readQuote } from '../../services/accounting/quote.ts';
import { listAccountsOfProject, listAccountsOfUser } from '../../services/accounting/read-accounts.ts';
import { listQuotas, readQuota } from '../../services/accounting/read-quotas.ts';
import { readStatement } from '../../services/accounting/statement.ts';
import { readUsage } from '../../services/accounting/usage.ts';
import { requireUserId } from '../../services/identity/access.ts';
import type { Owner } from '../../services/scope.ts';
import {
  type CallerRequest,
  json,
  operation,
  operations,
  others,
  own,
  type RouteRequest,
  versioned,
} from '../operation.ts';
import { optionalTime, toTimeRange } from '../request/list-query.ts';
import { scopeQuery, toProject, toScope } from '../request/path-params.ts';
import { payloadHeader, submissionHeaders } from '../request/submission.ts';
import { describeTable, formatQuery, sendBatches, tableFormat } from '../response/tables.ts';
import type { RouteContext } from './context.ts';

const quotaDescription =
  '`time_left` is in seconds of the charging unit of the system, `space_left` in KB (1,000 bytes).';
const quotaList = {
  description: quotaDescription,
  responses: versioned(Type.Array(QuotaSchema), 'The quotas, by descending project.'),
};
const oneQuota = { description: quotaDescription, responses: versioned(QuotaSchema, 'The quota.') };

const accounts = (which: string) => ({
  description: `Granted, held, used and available time of the current period, and space. ${which}`,
  responses: { 200: json(Type.Array(ProjectAccountSchema), 'The accounts, by project.') },
});
const accountsOfUser = accounts('The caps of the user, and the pools of the projects.');

const quote = {
  access: own('quotas.read'),
  summary: 'Read the cost of a job and whether it would be accepted',
  description: 'Takes the same Payload header as a submission. Nothing is submitted or reserved.',
  checkedHeaders: payloadHeader,
  responses: { 200: json(QuoteSchema, 'The cost, and whether the job would be accepted.') },
};

const movementColumns = ['resource', 'unit', ...Object.keys(MovementSchema.properties)];
const rangeQuery = {
  from: optionalTime('Start, ISO 8601. Default: the first movement.'),
  to: optionalTime('End, ISO 8601, exclusive. Default: now.'),
  ...formatQuery,
};
const statement = {
  description: 'The balances at the start and the end of the period, and every movement between them.',
  query: rangeQuery,
  responses: { 200: describeTable(StatementSchema, 'The movements of time and space.', movementColumns) },
};

const usageColumns = Object.keys(UsageSchema.properties);
const usageQuery = { ...scopeQuery, ...formatQuery };
const usage = {
  description: 'Charged time minus refunds, and the number of jobs that ended.',
  query: usageQuery,
  responses: { 200: describeTable(Type.Array(UsageSchema), 'One row for each project and month.', usageColumns) },
};

/** Quotas (4.3 and 4.4 of the interface), accounts, quotes, statements and usage. */
export function quotaOperations(context: RouteContext) {
  const sendQuote = (request: CallerRequest<'/{hpc}/'>) =>
    readQuote(context, {
      userId: request.caller.userId,
      scope: toScope(request.params),
      headers: submissionHeaders(request),
      idempotency: request.idempotency,
    });

  type StatementRequest = RouteRequest<'/{hpc}/{project_name}/', typeof rangeQuery>;
  const sendStatement = async (request: StatementRequest, reply: FastifyReply, userId: string) => {
    const { params, query } = request;
    const statement = await readStatement(context, userId, toProject(params), toTimeRange(query));
    if (tableFormat(request) !== 'csv') return statement;
    const rows = (['time', 'space'] as const).flatMap((name) =>
      statement[name].movements.map((movement) => ({ ...movement, resource: name, unit: statement[name].unit })),
    );
    return sendBatches(request, reply, [rows], movementColumns);
  };

  const sendUsage = async (request: RouteRequest<string, typeof usageQuery>, reply: FastifyReply, owner: Owner) =>
    sendBatches(request, reply, await readUsage(context, owner, toScope(request.query)), usageColumns);

  return operations('quotas', {
    listQuotas: operation({
      route: 'GET /quotas/',
      access: own('quotas.read'),
      summary: 'Your quotas on all systems',
      ...quotaList,
      handler: ({ caller }) => listQuotas(context, caller.userId, {}),
    }),
    listQuotasOnSystem: operation({
      route: 'GET /quotas/{hpc}/',
      access: own('quotas.read'),
      summary: 'Your quotas on one system',
      ...quotaList,
      handler: ({ caller, params }) => listQuotas(context, caller.userId, toScope(params)),
    }),
    getQuota: operation({
      route: 'GET /quotas/{hpc}/{project_name}/',
      access: own('quotas.read'),
      summary: 'Your quota in one project',
      ...oneQuota,
      handler: ({ caller, params }) => readQuota(context, caller.userId, toProject(params)),
    }),

    listQuotasOfUser: operation({
      route: 'GET /admin/quotas/{user_id}/',
      access: others('quotas.read'),
      summary: 'Quotas of a user on all systems',
      ...quotaList,
      handler: async ({ params }) => listQuotas(context, await requireUserId(context, params.user_id), {}),
    }),
    listQuotasOnSystemOfUser: operation({
      route: 'GET /admin/quotas/{user_id}/{hpc}/',
      access: others('quotas.read'),
      summary: 'Quotas of a user on one system',
      ...quotaList,
      handler: async ({ params }) => listQuotas(context, await requireUserId(context, params.user_id), toScope(params)),
    }),
    getQuotaOfUser: operation({
      route: 'GET /admin/quotas/{user_id}/{hpc}/{project_name}/',
      access: others('quotas.read'),
      summary: 'Quota of a user in one project',
      ...oneQuota,
      handler: async ({ params }) =>
        readQuota(context, await requireUserId(context, params.user_id), toProject(params)),
    }),
    listQuotasOfAllUsers: operation({
      route: 'GET /admin/quotas/',
      access: others('quotas.read'),
      summary: 'Quotas of all users',
      ...quotaList,
      query: scopeQuery,
      handler: ({ query }) => listQuotas(context, undefined, toScope(query)),
    }),

    listAccounts: operation({
      route: 'GET /accounts/',
      access: own('quotas.read'),
      summary: 'Your accounts on all systems',
      ...accountsOfUser,
      handler: ({ caller }) => listAccountsOfUser(context, caller.userId),
    }),
    listAccountsOfUser: operation({
      route: 'GET /admin/accounts/{user_id}/',
      access: others('quotas.read'),
      summary: 'Accounts of a user on all systems',
      ...accountsOfUser,
      handler: async ({ params }) => listAccountsOfUser(context, await requireUserId(context, params.user_id)),
    }),
    listAccountsOfProject: operation({
      route: 'GET /admin/projects/{hpc}/{project_name}/accounts/',
      access: others('quotas.read'),
      summary: 'Accounts of a project',
      ...accounts('The pools, and the caps of all members, including former ones.'),
      handler: ({ params }) => listAccountsOfProject(context, toProject(params)),
    }),

    getQuote: operation({
      route: 'POST /quotes/{hpc}/',
      ...quote,
      handler: sendQuote,
    }),
    getQuoteInProject: operation({
      route: 'POST /quotes/{hpc}/{project_name}/',
      ...quote,
      handler: sendQuote,
    }),

    getStatement: operation({
      route: 'GET /quotas/{hpc}/{project_name}/statement/',
      access: own('quotas.read'),
      summary: 'Your statement: every movement of time and space',
      ...statement,
      handler: (request, reply) => sendStatement(request, reply, request.caller.userId),
    }),
    getStatementOfUser: operation({
      route: 'GET /admin/quotas/{user_id}/{hpc}/{project_name}/statement/',
      access: others('quotas.read'),
      summary: 'Statement of a user: every movement of time and space',
      ...statement,
      handler: async (request, reply) =>
        sendStatement(request, reply, await requireUserId(context, request.params.user_id)),
    }),

    getUsage: operation({
      route: 'GET /usage/',
      access: own('quotas.read'),
      summary: 'Your usage by project and month',
      ...usage,
      handler: (request, reply) => sendUsage(request, reply, request.caller.userId),
    }),
    getUsageOfUser: operation({
      route: 'GET /admin/usage/{user_id}/',
      access: others('quotas.read'),
      summary: 'Usage of a user by project and month',
      ...usage,
      handler: async (request, reply) =>
        sendUsage(request, reply, await requireUserId(context, request.params.user_id)),
    }),
    getUsageOfAllUsers: operation({
      route: 'GET /admin/usage/',
      access: others('quotas.read'),
      summary: 'Usage of all users by project and month',
      ...usage,
      handler: (request, reply) => sendUsage(request, reply, undefined),
    }),
  });
}
