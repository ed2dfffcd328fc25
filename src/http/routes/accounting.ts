import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type, { type Static } from 'typebox';
import { BursarError } from '../../domain/errors.ts';
import type { AccountingService } from '../../services/accounting/accounting-service.ts';
import type { AccessService } from '../../services/identity/access.ts';
import { actorOf } from '../request/authentication.ts';
import { keyAndTarget, keyHeader } from '../request/idempotency-key.ts';
import { type OwnerScope, ownerScopes } from '../request/owner-scope.ts';
import { parseTime, timeExample } from '../request/parse-time.ts';
import { hpcParam, pathScope, projectParams, projectPath } from '../request/path-params.ts';
import { submissionHeaders, submissionSchema } from '../request/submission.ts';
import { formatQuery, sendCsv, wantsCsv } from '../response/csv-or-json.ts';
import { describe } from '../server/openapi.ts';
import { resource } from './resource.ts';

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

/** Quotes, statements and usage. */
export function accountingRoutes(app: FastifyInstance, accounting: AccountingService, access: AccessService): void {
  quoteRoutes(app, accounting);
  const quotas = ownerScopes('quotas', access);
  for (const scope of [quotas.own, quotas.ofUser]) statementRoute(app, accounting, scope);
  const usage = ownerScopes('usage', access);
  for (const scope of [usage.own, usage.ofUser, usage.everybody]) usageRoute(app, accounting, scope);
}

function quoteRoutes(app: FastifyInstance, accounting: AccountingService): void {
  const quote = (params: object) => ({
    schema: {
      ...describe('quotas', 'The cost of a job, and whether it would be accepted', { 200: Type.Ref('Quote') }),
      description: 'Takes the same Payload as a submission. Asking holds nothing.',
      headers: Type.Object({ payload: submissionSchema.headers.properties.payload, ...keyHeader }),
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
  resource(app, '/quotes/:hpc/', { POST: quote(hpcParam) });
  resource(app, '/quotes/:hpc/:project_name/', { POST: quote(projectParams) });
}

const RangeQuery = Type.Object({
  from: Type.Optional(Type.String({ description: 'ISO 8601; left out: from the beginning.' })),
  to: Type.Optional(Type.String({ description: 'ISO 8601, exclusive; left out: until now.' })),
  ...formatQuery,
});

function statementRoute(app: FastifyInstance, accounting: AccountingService, scope: OwnerScope): void {
  resource(app, `${scope.prefix}:hpc/:project_name/statement/`, {
    GET: {
      schema: {
        ...describe(scope.tag, scope.describe('statement: every movement of time and space'), {
          200: Type.Ref('Statement'),
        }),
        params: Type.Object({ ...scope.params, ...projectParams }),
        querystring: RangeQuery,
      },
      handler: async (request, reply) => {
        const userId = (await scope.ownerOf(request)) ?? '';
        const { from, to } = request.query as Static<typeof RangeQuery>;
        const range = { ...readTime('from', from), ...readTime('to', to) };
        const statement = await accounting.statement(userId, projectPath(request), range);
        if (!wantsCsv(request)) return statement;
        const rows = (['time', 'space'] as const).flatMap((name) =>
          statement[name].movements.map((movement) => ({ ...movement, resource: name, unit: statement[name].unit })),
        );
        return sendCsv(reply, rows, movementColumns);
      },
    },
  });
}

function usageRoute(app: FastifyInstance, accounting: AccountingService, scope: OwnerScope): void {
  resource(app, scope.prefix, {
    GET: {
      schema: {
        ...describe(scope.tag === 'usage' ? 'quotas' : scope.tag, scope.describe('usage by project and month'), {
          200: Type.Array(Type.Ref('Usage')),
        }),
        params: Type.Object({ ...scope.params }),
        querystring: Type.Object(formatQuery),
      },
      handler: async (request, reply) => {
        const usage = await accounting.usage(await scope.ownerOf(request));
        return wantsCsv(request) ? sendCsv(reply, usage, usageColumns) : usage;
      },
    },
  });
}

function readTime(name: 'from' | 'to', text: string | undefined) {
  if (text === undefined) return {};
  const at = parseTime(text);
  if (at === undefined) throw new BursarError('bad_request', `"${name}" is not a time. Write it as ${timeExample}.`);
  return { [name]: at };
}
