import type { FastifyReply } from 'fastify';
import Type from 'typebox';
import { QuotaSchema } from '../../contract/quota.ts';
import type { Owner, PathScope } from '../../services/scope.ts';
import { operation, operations, others, own, type RouteRequest, versioned } from '../operation.ts';
import { scopeQuery, toProject, toScope } from '../request/path-params.ts';
import { sendVersioned } from '../response/send.ts';
import type { RouteContext } from './context.ts';

const description = '`time_left` is in seconds of the charging unit of the system, `space_left` in KB (1,000 bytes).';
const quotaList = { description, responses: versioned(Type.Array(QuotaSchema), 'The quotas, by descending project.') };
const oneQuota = { description, responses: versioned(QuotaSchema, 'The quota.') };

/** The caller's own quotas (4.3 of the interface); for administrators those of a user (4.4) and of all users. */
export function quotaOperations({ accounting, access }: RouteContext) {
  const list = async (request: RouteRequest, reply: FastifyReply, owner: Owner, scope: PathScope) =>
    sendVersioned(request, reply, owner, await accounting.listQuotas(owner, scope));

  const read = async (request: RouteRequest<'/{hpc}/{project_name}/'>, reply: FastifyReply, userId: string) =>
    sendVersioned(request, reply, userId, await accounting.readQuota(userId, toProject(request.params)));

  return operations('quotas', {
    listQuotas: operation({
      route: 'GET /quotas/',
      access: own('quotas.read'),
      summary: 'Your quotas on all systems',
      ...quotaList,
      handler: (request, reply) => list(request, reply, request.caller.userId, {}),
    }),
    listQuotasOnSystem: operation({
      route: 'GET /quotas/{hpc}/',
      access: own('quotas.read'),
      summary: 'Your quotas on one system',
      ...quotaList,
      handler: (request, reply) => list(request, reply, request.caller.userId, toScope(request.params)),
    }),
    getQuota: operation({
      route: 'GET /quotas/{hpc}/{project_name}/',
      access: own('quotas.read'),
      summary: 'Your quota in one project',
      ...oneQuota,
      handler: (request, reply) => read(request, reply, request.caller.userId),
    }),

    listQuotasOfUser: operation({
      route: 'GET /admin/quotas/{user_id}/',
      access: others('quotas.read'),
      summary: 'Quotas of a user on all systems',
      ...quotaList,
      handler: async (request, reply) => list(request, reply, await access.requireUser(request.params.user_id), {}),
    }),
    listQuotasOnSystemOfUser: operation({
      route: 'GET /admin/quotas/{user_id}/{hpc}/',
      access: others('quotas.read'),
      summary: 'Quotas of a user on one system',
      ...quotaList,
      handler: async (request, reply) =>
        list(request, reply, await access.requireUser(request.params.user_id), toScope(request.params)),
    }),
    getQuotaOfUser: operation({
      route: 'GET /admin/quotas/{user_id}/{hpc}/{project_name}/',
      access: others('quotas.read'),
      summary: 'Quota of a user in one project',
      ...oneQuota,
      handler: async (request, reply) => read(request, reply, await access.requireUser(request.params.user_id)),
    }),
    listQuotasOfAllUsers: operation({
      route: 'GET /admin/quotas/',
      access: others('quotas.read'),
      summary: 'Quotas of all users',
      ...quotaList,
      query: scopeQuery,
      handler: (request, reply) => list(request, reply, undefined, toScope(request.query)),
    }),
  });
}
