import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type, { type Static } from 'typebox';
import type { AccountingService } from '../../services/accounting/accounting-service.ts';
import type { AccessService } from '../../services/identity/access.ts';
import { describeJson, describeRoute } from '../openapi/describe-route.ts';
import { actorOf } from '../request/authentication.ts';
import { keyAndTarget, keyHeader } from '../request/idempotency-key.ts';
import { type OwnerScope, ownerScopes } from '../request/owner-scope.ts';
import { parseRangeTime } from '../request/parse-time.ts';
import { hpcParam, pathScope, projectParams, projectScope, queryScope, scopeQuery } from '../request/path-params.ts';
import { payloadHeader, submissionHeaders } from '../request/submission.ts';
import { describeTable, formatQuery, sendBatches, sendCsv, tableFormat } from '../response/tables.ts';
import { addResource, type Handler } from './resource.ts';

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
const usageColumns = ['user', 'project_hpc', 'project_name', 'month', 'jobs', 'time_seconds'];

/** Accounts, quotes, statements and usage. */
export function accountingRoutes(app: FastifyInstance, accounting: AccountingService, access: AccessService): void {
  accountRoutes(app, accounting, access);
  quoteRoutes(app, accounting);
  const quotas = ownerScopes('quotas', access);
  for (const scope of [quotas.own, quotas.ofUser]) statementRoute(app, accounting, scope);
  const usage = ownerScopes('usage', access);
  for (const scope of [usage.own, usage.ofUser, usage.allUsers]) usageRoute(app, accounting, scope);
}

function accountRoutes(app: FastifyInstance, accounting: AccountingService, access: AccessService): void {
  const response = { 200: describeJson(Type.Array(Type.Ref('ProjectAccount')), 'The accounts, by project.') };
  const description = 'Granted, held, used and available time of the current period, and space.';
  const { own, ofUser } = ownerScopes('accounts', access);
  for (const scope of [own, ofUser]) {
    addResource(app, scope.prefix, {
      GET: {
        access: { action: 'quotas.read', reach: scope.reach },
        schema: {
          ...describeRoute(
            scope.tag === 'accounts' ? 'quotas' : scope.tag,
            scope.operationId('listAccounts'),
            scope.describe('accounts on all systems'),
            response,
          ),
          description: `${description} The caps of the user, and the pools of the projects.`,
          params: Type.Object({ ...scope.params }),
        },
        handler: async (request) => accounting.listAccountsOfUser((await scope.ownerOf(request)) ?? ''),
      },
    });
  }
  addResource(app, '/admin/projects/:hpc/:project_name/accounts/', {
    GET: {
      access: { action: 'quotas.read', reach: 'others' },
      schema: {
        ...describeRoute('administration', 'listAccountsOfProject', 'Accounts of a project', response),
        description: `${description} The pools, and the caps of all members, also of former ones.`,
        params: Type.Object(projectParams),
      },
      handler: (request) => accounting.listAccountsOfProject(projectScope(request)),
    },
  });
}

function quoteRoutes(app: FastifyInstance, accounting: AccountingService): void {
  const quote = (operationId: string, params: object): Handler => ({
    access: { action: 'quotas.read', reach: 'own' },
    schema: {
      ...describeRoute('quotas', operationId, 'Read the cost of a job and whether it would be accepted', {
        200: describeJson(Type.Ref('Quote'), 'The cost, and whether the job would be accepted.'),
      }),
      description: 'Takes the same Payload header as a submission. Nothing is submitted or reserved.',
      headers: Type.Object({ ...payloadHeader, ...keyHeader }),
      params: Type.Object({ ...params }),
    },
    // The service checks the headers and gives better messages than a schema.
    validatorCompiler: () => () => true,
    handler: (request: FastifyRequest) =>
      accounting.quote({
        actor: actorOf(request),
        scope: pathScope(request),
        headers: submissionHeaders(request),
        idempotency: keyAndTarget(request),
      }),
  });
  addResource(app, '/quotes/:hpc/', { POST: quote('getQuote', hpcParam) });
  addResource(app, '/quotes/:hpc/:project_name/', { POST: quote('getQuoteInProject', projectParams) });
}

const RangeQuery = Type.Object({
  from: Type.Optional(Type.String({ description: 'Start, ISO 8601. Default: the first movement.' })),
  to: Type.Optional(Type.String({ description: 'End, ISO 8601, exclusive. Default: now.' })),
  ...formatQuery,
});

function statementRoute(app: FastifyInstance, accounting: AccountingService, scope: OwnerScope): void {
  addResource(app, `${scope.prefix}:hpc/:project_name/statement/`, {
    GET: {
      access: { action: 'quotas.read', reach: scope.reach },
      schema: {
        ...describeRoute(
          scope.tag,
          scope.operationId('getStatement'),
          scope.describe('statement: every movement of time and space'),
          { 200: describeTable(Type.Ref('Statement'), 'The movements of time and space.', movementColumns) },
        ),
        description: 'The balances at the start and the end of the period, and every movement between them.',
        params: Type.Object({ ...scope.params, ...projectParams }),
        querystring: RangeQuery,
      },
      handler: async (request, reply) => {
        const userId = (await scope.ownerOf(request)) ?? '';
        const { from, to } = request.query as Static<typeof RangeQuery>;
        const range = { ...parseRangeTime('from', from), ...parseRangeTime('to', to) };
        const statement = await accounting.statement(userId, projectScope(request), range);
        if (tableFormat(request) !== 'csv') return statement;
        const rows = (['time', 'space'] as const).flatMap((name) =>
          statement[name].movements.map((movement) => ({ ...movement, resource: name, unit: statement[name].unit })),
        );
        return sendCsv(reply, rows, movementColumns);
      },
    },
  });
}

function usageRoute(app: FastifyInstance, accounting: AccountingService, scope: OwnerScope): void {
  addResource(app, scope.prefix, {
    GET: {
      access: { action: 'quotas.read', reach: scope.reach },
      schema: {
        ...describeRoute(
          scope.tag === 'usage' ? 'quotas' : scope.tag,
          scope.operationId('getUsage'),
          scope.describe('usage by project and month'),
          { 200: describeTable(Type.Array(Type.Ref('Usage')), 'One row for each project and month.', usageColumns) },
        ),
        description: 'Charged time minus refunds, and the number of jobs that ended.',
        params: Type.Object({ ...scope.params }),
        querystring: Type.Object({ ...scopeQuery, ...formatQuery }),
      },
      handler: async (request, reply) => {
        const usage = await accounting.usage(await scope.ownerOf(request), queryScope(request));
        return sendBatches(request, reply, usage, usageColumns);
      },
    },
  });
}
