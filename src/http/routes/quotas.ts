import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { AccountingService } from '../../services/accounting/accounting-service.ts';
import type { AccessService } from '../../services/identity/access.ts';
import type { PathScope } from '../../services/scope.ts';
import { describeRoute, describeVersioned } from '../openapi/describe-route.ts';
import { type OwnerScope, ownerScopes } from '../request/owner-scope.ts';
import { hpcParam, pathScope, projectParams, projectScope, queryScope, scopeQuery } from '../request/path-params.ts';
import { sendVersioned } from '../response/conditional.ts';
import { addResource } from './resource.ts';

const quotaList = describeVersioned(Type.Array(Type.Ref('Quota')), 'The quotas, by descending project.');
const description = '`time_left` is in seconds of the charging unit of the system, `space_left` in KB (1,000 bytes).';
const oneQuota = describeVersioned(Type.Ref('Quota'), 'The quota.');

/** The caller's own quotas (4.3 of the interface); for administrators those of a user (4.4) and of all users. */
export function quotaRoutes(app: FastifyInstance, accounting: AccountingService, access: AccessService): void {
  const { own, ofUser, allUsers } = ownerScopes('quotas', access);
  for (const scope of [own, ofUser]) readRoutes(app, accounting, scope);
  addResource(app, allUsers.prefix, {
    GET: {
      access: { action: 'quotas.read', reach: allUsers.reach },
      schema: {
        ...describeRoute(allUsers.tag, allUsers.operationId('listQuotas'), allUsers.describe('quotas'), quotaList),
        description,
        querystring: Type.Object(scopeQuery),
      },
      handler: listHandler(accounting, allUsers, queryScope),
    },
  });
}

function listHandler(
  accounting: AccountingService,
  scope: OwnerScope,
  scopeOf: (request: FastifyRequest) => PathScope,
) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const userId = await scope.ownerOf(request);
    return sendVersioned(request, reply, userId, await accounting.listQuotas(userId, scopeOf(request)));
  };
}

function readRoutes(app: FastifyInstance, accounting: AccountingService, scope: OwnerScope): void {
  const { prefix, tag } = scope;
  const schema = (operationId: string, summary: string, params: object, response: typeof quotaList) => ({
    ...describeRoute(tag, scope.operationId(operationId), scope.describe(summary), response),
    description,
    params: Type.Object({ ...scope.params, ...params }),
  });
  const access = { action: 'quotas.read', reach: scope.reach } as const;
  const list = listHandler(accounting, scope, pathScope);
  addResource(app, prefix, {
    GET: { access, schema: schema('listQuotas', 'quotas on all systems', {}, quotaList), handler: list },
  });
  addResource(app, `${prefix}:hpc/`, {
    GET: { access, schema: schema('listQuotasOnSystem', 'quotas on one system', hpcParam, quotaList), handler: list },
  });
  addResource(app, `${prefix}:hpc/:project_name/`, {
    GET: {
      access,
      schema: schema('getQuota', 'quota in one project', projectParams, oneQuota),
      handler: async (request, reply) => {
        const userId = (await scope.ownerOf(request)) ?? '';
        return sendVersioned(request, reply, userId, await accounting.readQuota(userId, projectScope(request)));
      },
    },
  });
}
