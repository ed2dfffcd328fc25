import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type, { type Static } from 'typebox';
import type { Actor } from '../../services/actor.ts';
import type { Place } from '../../services/places.ts';
import { actorOf } from '../authentication.ts';
import { describe, sendJson } from '../openapi.ts';
import { resource } from '../resource.ts';

export interface QuotaServices {
  listQuotas(userId: string, place: Place): Promise<string>;
  readQuota(userId: string, place: Required<Place>): Promise<string>;
  /** Throws unless the actor is an administrator and the user exists. */
  checkAdministrator(actor: Actor, userId: string): Promise<void>;
}

const User = Type.Object({ user_id: Type.String({ description: 'The user, in digits.' }) });
const Hpc = Type.Object({ hpc: Type.String({ description: 'The HPC system, in lower case.' }) });
const Project = Type.Object({ ...Hpc.properties, project_name: Type.String() });

const QuotaList = Type.Array(Type.Ref('Quota'), { description: 'The quotas, by descending project.' });
const OneQuota = Type.Ref('Quota');

type Params = Partial<Static<typeof User> & Static<typeof Project>>;

/** One's own quotas (4.3 of the interface), and those of any user for administrators (4.4). */
export function quotaRoutes(app: FastifyInstance, services: QuotaServices): void {
  quotaPaths(app, services, { prefix: '/quotas/', tag: 'quotas', params: {}, userOf: async (actor) => actor.userId });
  quotaPaths(app, services, {
    prefix: '/admin/quotas/:user_id/',
    tag: 'administration',
    params: User.properties,
    userOf: async (actor, { user_id: userId = '' }) => {
      await services.checkAdministrator(actor, userId);
      return userId;
    },
  });
}

interface Whose {
  prefix: string;
  tag: string;
  params: Partial<typeof User.properties>;
  userOf(actor: Actor, params: Params): Promise<string>;
}

function quotaPaths(app: FastifyInstance, services: QuotaServices, whose: Whose): void {
  const { prefix, tag, params } = whose;
  const list = async (request: FastifyRequest, reply: FastifyReply) => {
    const userId = await whose.userOf(actorOf(request), request.params as Params);
    const { hpc } = request.params as Params;
    return sendJson(reply, 200, await services.listQuotas(userId, hpc === undefined ? {} : { hpc }));
  };
  resource(app, prefix, {
    GET: {
      schema: { ...describe(tag, 'Quotas of all systems', { 200: QuotaList }), params: Type.Object({ ...params }) },
      handler: list,
    },
  });
  resource(app, `${prefix}:hpc/`, {
    GET: {
      schema: {
        ...describe(tag, 'Quotas of one HPC system', { 200: QuotaList }),
        params: Type.Object({ ...params, ...Hpc.properties }),
      },
      handler: list,
    },
  });
  resource(app, `${prefix}:hpc/:project_name/`, {
    GET: {
      schema: {
        ...describe(tag, 'The quota of one project', { 200: OneQuota }),
        params: Type.Object({ ...params, ...Project.properties }),
      },
      handler: async (request, reply) => {
        const userId = await whose.userOf(actorOf(request), request.params as Params);
        const { hpc, project_name: project } = request.params as Static<typeof Project>;
        return sendJson(reply, 200, await services.readQuota(userId, { hpc, project }));
      },
    },
  });
}
