import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type, { type Static } from 'typebox';
import type { QuoteSchema, StatementSchema, UsageSchema } from '../../contract/ledger.ts';
import { BursarError } from '../../domain/errors.ts';
import type { JobRequest } from '../../domain/jobs/job.ts';
import type { IdempotentRequest } from '../../services/idempotency.ts';
import type { Actor } from '../../services/identity/actor.ts';
import type { Destination } from '../../services/jobs/destination.ts';
import type { PathScope } from '../../services/scope.ts';
import { actorOf } from '../request/authentication.ts';
import { idempotentRequest, keyHeader } from '../request/idempotency-key.ts';
import { type OwnerScope, type OwnerScopeServices, ownerScopes } from '../request/owner-scope.ts';
import { parseTime, timeExample } from '../request/parse-time.ts';
import { hpcParam, pathScope, projectParams, projectPath } from '../request/path-params.ts';
import { payloadContent, readPayload, submissionSchema } from '../request/submission.ts';
import { formatQuery, sendCsv, wantsCsv } from '../response/csv-or-json.ts';
import { describe } from '../server/openapi.ts';
import { resource } from './resource.ts';

export interface AccountingServices extends OwnerScopeServices {
  findDestination(actor: Actor, place: PathScope): Promise<Destination>;
  quote(destination: Destination, request: JobRequest): Static<typeof QuoteSchema>;
  /** The answer that was given before under the key, if there is one. */
  readOnce<T>(request: IdempotentRequest | null, read: () => Promise<T>): Promise<T>;
  statement(
    userId: string,
    place: Required<PathScope>,
    range: { from?: number; to?: number },
  ): Promise<Static<typeof StatementSchema>>;
  usage(userId: string | undefined): Promise<Static<typeof UsageSchema>[]>;
}

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

/** What things cost, where they went, and how fast they go. */
export function accountingRoutes(app: FastifyInstance, services: AccountingServices): void {
  quotePaths(app, services);
  const statements = ownerScopes('quotas', services);
  for (const whose of [statements.own, statements.ofUser]) statementPath(app, services, whose);
  const usage = ownerScopes('usage', services);
  for (const whose of [usage.own, usage.ofUser, usage.everybody]) usagePath(app, services, whose);
}

function quotePaths(app: FastifyInstance, services: AccountingServices): void {
  const quote = (params: object) => ({
    schema: {
      ...describe('quotas', 'What a job would cost, and whether it would be accepted', { 200: Type.Ref('Quote') }),
      description: 'The same Payload as for a submission. Nothing is held by asking.',
      headers: Type.Object({ payload: submissionSchema.headers.properties.payload, ...keyHeader }),
      params: Type.Object({ ...params }),
    },
    validatorCompiler: () => () => true,
    handler: async (request: FastifyRequest) => {
      return await services.readOnce(
        idempotentRequest(request, () => payloadContent(request)),
        async () => {
          const destination = await services.findDestination(actorOf(request), pathScope(request));
          return services.quote(destination, readPayload(request, destination.system));
        },
      );
    },
  });
  resource(app, '/quotes/:hpc/', { POST: quote(hpcParam) });
  resource(app, '/quotes/:hpc/:project_name/', { POST: quote(projectParams) });
}

const RangeQuery = Type.Object({
  from: Type.Optional(Type.String({ description: 'ISO 8601; left out: from the beginning.' })),
  to: Type.Optional(Type.String({ description: 'ISO 8601, exclusive; left out: until now.' })),
  ...formatQuery,
});

function statementPath(app: FastifyInstance, services: AccountingServices, whose: OwnerScope): void {
  resource(app, `${whose.prefix}:hpc/:project_name/statement/`, {
    GET: {
      schema: {
        ...describe(whose.tag, whose.describe('statement: every movement of time and space'), {
          200: Type.Ref('Statement'),
        }),
        params: Type.Object({ ...whose.params, ...projectParams }),
        querystring: RangeQuery,
      },
      handler: async (request, reply) => {
        const userId = (await whose.ownerOf(request)) ?? '';
        const { from, to } = request.query as Static<typeof RangeQuery>;
        const range = { ...moment('from', from), ...moment('to', to) };
        const statement = await services.statement(userId, projectPath(request), range);
        if (!wantsCsv(request)) return statement;
        const rows = (['time', 'space'] as const).flatMap((name) =>
          statement[name].movements.map((movement) => ({ ...movement, resource: name, unit: statement[name].unit })),
        );
        return sendCsv(reply, rows, movementColumns);
      },
    },
  });
}

function usagePath(app: FastifyInstance, services: AccountingServices, whose: OwnerScope): void {
  resource(app, whose.prefix, {
    GET: {
      schema: {
        ...describe(whose.tag === 'usage' ? 'quotas' : whose.tag, whose.describe('usage by project and month'), {
          200: Type.Array(Type.Ref('Usage')),
        }),
        params: Type.Object({ ...whose.params }),
        querystring: Type.Object(formatQuery),
      },
      handler: async (request, reply) => {
        const usage = await services.usage(await whose.ownerOf(request));
        return wantsCsv(request) ? sendCsv(reply, usage, usageColumns) : usage;
      },
    },
  });
}

function moment(name: 'from' | 'to', text: string | undefined) {
  if (text === undefined) return {};
  const at = parseTime(text);
  if (at === undefined) throw new BursarError('bad_request', `"${name}" is not a time. Write it as ${timeExample}.`);
  return { [name]: at };
}
