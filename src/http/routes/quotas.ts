import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { PathScope } from '../../services/scope.ts';
import type { VersionedJson } from '../../services/versioned.ts';
import { type OwnerScope, type OwnerScopeServices, ownerScopes } from '../request/owner-scope.ts';
import { hpcParam, pathScope, projectParams, projectPath } from '../request/path-params.ts';
import { sendVersioned } from '../response/conditional.ts';
import type { ResponseCache } from '../response/response-cache.ts';
import { describe } from '../server/openapi.ts';
import { resource } from './resource.ts';

export interface QuotaServices extends OwnerScopeServices {
  listQuotas(userId: string | undefined, place: PathScope, knownVersion: string | undefined): Promise<VersionedJson>;
  readQuota(userId: string, place: Required<PathScope>, knownVersion: string | undefined): Promise<VersionedJson>;
}

const QuotaList = Type.Array(Type.Ref('Quota'), { description: 'The quotas, by descending project.' });

/** One's own quotas (4.3 of the interface); for administrators those of a user (4.4), and of everybody. */
export function quotaRoutes(app: FastifyInstance, services: QuotaServices, cache: ResponseCache): void {
  const { own, ofUser, everybody } = ownerScopes('quotas', services);
  for (const whose of [own, ofUser, everybody]) quotaPaths(app, services, cache, whose);
}

function quotaPaths(app: FastifyInstance, services: QuotaServices, cache: ResponseCache, whose: OwnerScope): void {
  const { prefix, tag } = whose;
  const schema = (where: string, params: object, answer: typeof QuotaList | ReturnType<typeof Type.Ref>) => ({
    ...describe(tag, whose.describe(`quotas ${where}`), { 200: answer }),
    params: Type.Object({ ...whose.params, ...params }),
  });
  const list = async (request: FastifyRequest, reply: FastifyReply) => {
    const userId = await whose.ownerOf(request);
    const place = pathScope(request);
    return sendVersioned(cache, request, reply, userId, (known) => services.listQuotas(userId, place, known));
  };

  resource(app, prefix, { GET: { schema: schema('on all systems', {}, QuotaList), handler: list } });
  resource(app, `${prefix}:hpc/`, { GET: { schema: schema('on one system', hpcParam, QuotaList), handler: list } });
  resource(app, `${prefix}:hpc/:project_name/`, {
    GET: {
      schema: schema('in one project', projectParams, prefix === '/admin/quotas/' ? QuotaList : Type.Ref('Quota')),
      handler: async (request, reply) => {
        const userId = await whose.ownerOf(request);
        const place = projectPath(request);
        // Of everybody there are many in a project, of a user there is one.
        return sendVersioned(cache, request, reply, userId, (known) =>
          userId === undefined ? services.listQuotas(userId, place, known) : services.readQuota(userId, place, known),
        );
      },
    },
  });
}
