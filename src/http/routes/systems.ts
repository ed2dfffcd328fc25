import type { FastifyInstance } from 'fastify';
import Type, { type Static } from 'typebox';
import { ReasonBody } from '../../contract/administration.ts';
import type { SystemService } from '../../services/systems/system-service.ts';
import { describeRoute } from '../openapi/describe-route.ts';
import { actorOf } from '../request/authentication.ts';
import { idempotentRequest, keyHeader } from '../request/idempotency-key.ts';
import { hpcParam, pathScope } from '../request/path-params.ts';
import { addResource } from './resource.ts';

const tag = 'administration';
const description = 'The allowed content of a Payload, and whether the system accepts and runs jobs now.';

/** The HPC systems with their limits, tools and health. */
export function systemRoutes(app: FastifyInstance, systems: SystemService): void {
  addResource(app, '/hpc/', {
    GET: {
      access: { action: 'systems.read', reach: 'own' },
      schema: {
        ...describeRoute('systems', 'listSystems', 'List the HPC systems with their limits, tools and health', {
          200: Type.Array(Type.Ref('System')),
        }),
        description,
      },
      handler: () => systems.read(),
    },
  });
  addResource(app, '/hpc/:hpc/', {
    GET: {
      access: { action: 'systems.read', reach: 'own' },
      schema: {
        ...describeRoute('systems', 'getSystem', 'Read one HPC system', { 200: Type.Ref('System') }),
        description,
        params: Type.Object(hpcParam),
      },
      handler: async (request) => (await systems.read(pathScope(request).hpc))[0],
    },
  });
}

/** The systems with the errors of their schedulers, and the requests that stop and allow new submissions. */
export function adminSystemRoutes(app: FastifyInstance, systems: SystemService): void {
  const adminDescription = 'Like `/hpc/`, but `detail` has the error of the scheduler, with its paths and remedies.';
  addResource(app, '/admin/systems/', {
    GET: {
      access: { action: 'systems.read', reach: 'others' },
      schema: {
        ...describeRoute(
          tag,
          'listSystemsForAdministrators',
          'List the HPC systems with the errors of their schedulers',
          {
            200: Type.Array(Type.Ref('System')),
          },
        ),
        description: adminDescription,
      },
      handler: () => systems.readForOperators(),
    },
  });
  addResource(app, '/admin/systems/:hpc/', {
    GET: {
      access: { action: 'systems.read', reach: 'others' },
      schema: {
        ...describeRoute(tag, 'getSystemForAdministrators', 'Read one HPC system with the error of its scheduler', {
          200: Type.Ref('System'),
        }),
        description: adminDescription,
        params: Type.Object(hpcParam),
      },
      handler: async (request) => (await systems.readForOperators(pathScope(request).hpc))[0],
    },
  });
  pauseRoutes(app, systems);
}

/** Lets administrators stop and allow new submissions to a system. Its submitted jobs continue. */
function pauseRoutes(app: FastifyInstance, systems: SystemService): void {
  for (const action of ['pause', 'resume'] as const) {
    addResource(app, `/admin/systems/:hpc/${action}/`, {
      POST: {
        access: { action: 'systems.pause', reach: 'others' },
        schema: {
          ...describeRoute(tag, `${action}System`, `${action === 'pause' ? 'Pause' : 'Resume'} a system`, {
            200: Type.Ref('System'),
          }),
          description: 'A paused system answers submissions with 503. Its submitted jobs continue.',
          params: Type.Object(hpcParam),
          headers: Type.Object(keyHeader),
          body: ReasonBody,
        },
        handler: async (request) => {
          const { reason } = request.body as Static<typeof ReasonBody>;
          const { hpc = '' } = pathScope(request);
          return (await systems[action](actorOf(request), hpc, reason, idempotentRequest(request)))[0];
        },
      },
    });
  }
}
