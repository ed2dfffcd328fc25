import type { FastifyReply } from 'fastify';
import Type from 'typebox';
import { ProjectAccountSchema, QuoteSchema, UsageSchema } from '../../contract/ledger.ts';
import { StatementSchema } from '../../contract/statement.ts';
import type { Owner } from '../../services/scope.ts';
import { type CallerRequest, json, operation, operations, others, own, type RouteRequest } from '../operation.ts';
import { optionalTime, toTimeRange } from '../request/list-query.ts';
import { scopeQuery, toProject, toScope } from '../request/path-params.ts';
import { payloadHeader, submissionHeaders } from '../request/submission.ts';
import { describeTable, formatQuery, sendBatches, sendCsv, tableFormat } from '../response/tables.ts';
import type { RouteContext } from './context.ts';

const accountsDescription = 'Granted, held, used and available time of the current period, and space.';
const accounts = { 200: json(Type.Array(ProjectAccountSchema), 'The accounts, by project.') };

const quoteSummary = 'Read the cost of a job and whether it would be accepted';
const quoteDescription = 'Takes the same Payload header as a submission. Nothing is submitted or reserved.';
const quote = { 200: json(QuoteSchema, 'The cost, and whether the job would be accepted.') };

const movementColumns = [
  'resource',
  'unit',
  'id',
  'at',
  'kind',
  'change',
  'balance',
  'used',
  'job_id',
  'actor',
  'reason',
];
const rangeQuery = {
  from: optionalTime('Start, ISO 8601. Default: the first movement.'),
  to: optionalTime('End, ISO 8601, exclusive. Default: now.'),
  ...formatQuery,
};
const statementDescription = 'The balances at the start and the end of the period, and every movement between them.';
const statement = { 200: describeTable(StatementSchema, 'The movements of time and space.', movementColumns) };

const usageColumns = ['user', 'project_hpc', 'project_name', 'month', 'jobs', 'time_seconds'];
const usageQuery = { ...scopeQuery, ...formatQuery };
const usageDescription = 'Charged time minus refunds, and the number of jobs that ended.';
const usage = {
  200: describeTable(Type.Array(UsageSchema), 'One row for each project and month.', usageColumns),
};

/** Accounts, quotes, statements and usage. */
export function accountingOperations({ accounting, access }: RouteContext) {
  const readQuote = (request: CallerRequest<'/{hpc}/'>) =>
    accounting.quote({
      actor: request.caller,
      scope: toScope(request.params),
      headers: submissionHeaders(request),
      idempotency: request.idempotency,
    });

  type StatementRequest = RouteRequest<'/{hpc}/{project_name}/', typeof rangeQuery>;
  const sendStatement = async (request: StatementRequest, reply: FastifyReply, userId: string) => {
    const { params, query } = request;
    const statement = await accounting.statement(userId, toProject(params), toTimeRange(query));
    if (tableFormat(request) !== 'csv') return statement;
    const rows = (['time', 'space'] as const).flatMap((name) =>
      statement[name].movements.map((movement) => ({ ...movement, resource: name, unit: statement[name].unit })),
    );
    return sendCsv(reply, rows, movementColumns);
  };

  const sendUsage = async (request: RouteRequest<string, typeof usageQuery>, reply: FastifyReply, owner: Owner) =>
    sendBatches(request, reply, await accounting.usage(owner, toScope(request.query)), usageColumns);

  return operations('quotas', {
    listAccounts: operation({
      route: 'GET /accounts/',
      access: own('quotas.read'),
      summary: 'Your accounts on all systems',
      description: `${accountsDescription} The caps of the user, and the pools of the projects.`,
      responses: accounts,
      handler: ({ caller }) => accounting.listAccountsOfUser(caller.userId),
    }),
    listAccountsOfUser: operation({
      route: 'GET /admin/accounts/{user_id}/',
      access: others('quotas.read'),
      summary: 'Accounts of a user on all systems',
      description: `${accountsDescription} The caps of the user, and the pools of the projects.`,
      responses: accounts,
      handler: async ({ params }) => accounting.listAccountsOfUser(await access.requireUser(params.user_id)),
    }),
    listAccountsOfProject: operation({
      route: 'GET /admin/projects/{hpc}/{project_name}/accounts/',
      access: others('quotas.read'),
      summary: 'Accounts of a project',
      description: `${accountsDescription} The pools, and the caps of all members, also of former ones.`,
      responses: accounts,
      handler: ({ params }) => accounting.listAccountsOfProject(toProject(params)),
    }),

    getQuote: operation({
      route: 'POST /quotes/{hpc}/',
      access: own('quotas.read'),
      summary: quoteSummary,
      description: quoteDescription,
      checkedHeaders: payloadHeader,
      responses: quote,
      handler: readQuote,
    }),
    getQuoteInProject: operation({
      route: 'POST /quotes/{hpc}/{project_name}/',
      access: own('quotas.read'),
      summary: quoteSummary,
      description: quoteDescription,
      checkedHeaders: payloadHeader,
      responses: quote,
      handler: readQuote,
    }),

    getStatement: operation({
      route: 'GET /quotas/{hpc}/{project_name}/statement/',
      access: own('quotas.read'),
      summary: 'Your statement: every movement of time and space',
      description: statementDescription,
      query: rangeQuery,
      responses: statement,
      handler: (request, reply) => sendStatement(request, reply, request.caller.userId),
    }),
    getStatementOfUser: operation({
      route: 'GET /admin/quotas/{user_id}/{hpc}/{project_name}/statement/',
      access: others('quotas.read'),
      summary: 'Statement of a user: every movement of time and space',
      description: statementDescription,
      query: rangeQuery,
      responses: statement,
      handler: async (request, reply) =>
        sendStatement(request, reply, await access.requireUser(request.params.user_id)),
    }),

    getUsage: operation({
      route: 'GET /usage/',
      access: own('quotas.read'),
      summary: 'Your usage by project and month',
      description: usageDescription,
      query: usageQuery,
      responses: usage,
      handler: (request, reply) => sendUsage(request, reply, request.caller.userId),
    }),
    getUsageOfUser: operation({
      route: 'GET /admin/usage/{user_id}/',
      access: others('quotas.read'),
      summary: 'Usage of a user by project and month',
      description: usageDescription,
      query: usageQuery,
      responses: usage,
      handler: async (request, reply) => sendUsage(request, reply, await access.requireUser(request.params.user_id)),
    }),
    getUsageOfAllUsers: operation({
      route: 'GET /admin/usage/',
      access: others('quotas.read'),
      summary: 'Usage of all users by project and month',
      description: usageDescription,
      query: usageQuery,
      responses: usage,
      handler: (request, reply) => sendUsage(request, reply, undefined),
    }),
  });
}
