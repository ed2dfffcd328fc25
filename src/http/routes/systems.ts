import type { FastifyInstance } from 'fastify';
import Type, { type Static } from 'typebox';
import { ReasonBody } from '../../contract/administration.ts';
import type { SystemSchema } from '../../contract/system.ts';
import type { IdempotentRequest } from '../../services/idempotency.ts';
import type { Actor } from '../../services/identity/actor.ts';
import { actorOf } from '../request/authentication.ts';
import { idempotentRequest, keyHeader } from '../request/idempotency-key.ts';
import { hpcParam, pathScope } from '../request/path-params.ts';
import { describe } from '../server/openapi.ts';
import { resource } from './resource.ts';

type System = Static<typeof SystemSchema>;

export interface SystemServices {
  readSystems(hpc?: string): Promise<System[]>;
  /** Throws unless the actor is an administrator. */
  pauseSystem(actor: Actor, hpc: string, reason: string, request: IdempotentRequest | null): Promise<System[]>;
  resumeSystem(actor: Actor, hpc: string, reason: string, request: IdempotentRequest | null): Promise<System[]>;
}

/** What the systems take and how they do. */
export function systemRoutes(app: FastifyInstance, services: SystemServices): void {
  resource(app, '/hpc/', {
    GET: {
      schema: describe('systems', 'All HPC systems, with their limits, tools and health', {
        200: Type.Array(Type.Ref('System')),
      }),
      handler: () => services.readSystems(),
    },
  });
  resource(app, '/hpc/:hpc/', {
    GET: {
      schema: { ...describe('systems', 'One HPC system', { 200: Type.Ref('System') }), params: Type.Object(hpcParam) },
      handler: async (request) => (await services.readSystems(pathScope(request).hpc))[0],
    },
  });
}

/** Administrators can keep a system from taking submissions; what it has taken runs on. */
export function pauseRoutes(app: FastifyInstance, services: SystemServices): void {
  const acts = { pause: services.pauseSystem, resume: services.resumeSystem };
  for (const [name, act] of Object.entries(acts)) {
    resource(app, `/admin/systems/:hpc/${name}/`, {
      POST: {
        schema: {
          ...describe('administration', `${name === 'pause' ? 'Pause' : 'Resume'} a system`, {
            200: Type.Ref('System'),
          }),
          params: Type.Object(hpcParam),
          headers: Type.Object(keyHeader),
          body: ReasonBody,
        },
        handler: async (request) => {
          const { reason } = request.body as Static<typeof ReasonBody>;
          const once = idempotentRequest(request, () => request.body);
          return (await act(actorOf(request), pathScope(request).hpc ?? '', reason, once))[0];
        },
      },
    });
  }
}
