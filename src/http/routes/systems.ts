import Type from 'typebox';
import { ReasonBody } from '../../contract/administration.ts';
import { SystemSchema } from '../../contract/system.ts';
import { readSystems, setPaused } from '../../services/systems/read-systems.ts';
import { operation, operations, others, own } from '../operation.ts';
import type { RouteContext } from './context.ts';

const description = 'The allowed content of a Payload, and whether the system accepts and runs jobs now.';
const adminDescription = 'Like `/hpc/`, but `detail` has the error of the scheduler, with its paths and remedies.';
const pause = {
  access: others('systems.pause'),
  description: 'A paused system answers submissions with 503. Its submitted jobs continue.',
  body: ReasonBody,
  responses: { 200: SystemSchema },
};

/** The HPC systems with their limits, tools and health. Operators see the errors of schedulers, and pause systems. */
export const systemOperations = (context: RouteContext) =>
  operations('systems', {
    listSystems: operation({
      route: 'GET /hpc/',
      access: own('systems.read'),
      summary: 'List the HPC systems with their limits, tools and health',
      description,
      responses: { 200: Type.Array(SystemSchema) },
      handler: () => readSystems(context, 'users'),
    }),
    getSystem: operation({
      route: 'GET /hpc/{hpc}/',
      access: own('systems.read'),
      summary: 'Read one HPC system',
      description,
      responses: { 200: SystemSchema },
      handler: async ({ params }) => (await readSystems(context, 'users', params.hpc))[0],
    }),

    listSystemsForAdministrators: operation({
      route: 'GET /admin/systems/',
      access: others('systems.read'),
      summary: 'List the HPC systems with the errors of their schedulers',
      description: adminDescription,
      responses: { 200: Type.Array(SystemSchema) },
      handler: () => readSystems(context, 'operators'),
    }),
    getSystemForAdministrators: operation({
      route: 'GET /admin/systems/{hpc}/',
      access: others('systems.read'),
      summary: 'Read one HPC system with the error of its scheduler',
      description: adminDescription,
      responses: { 200: SystemSchema },
      handler: async ({ params }) => (await readSystems(context, 'operators', params.hpc))[0],
    }),
    pauseSystem: operation({
      route: 'POST /admin/systems/{hpc}/pause/',
      ...pause,
      summary: 'Pause a system',
      handler: async ({ caller, params, body, idempotency }) =>
        (await setPaused(context, params.hpc, true, body.reason, { actor: caller, idempotency }))[0],
    }),
    resumeSystem: operation({
      route: 'POST /admin/systems/{hpc}/resume/',
      ...pause,
      summary: 'Resume a system',
      handler: async ({ caller, params, body, idempotency }) =>
        (await setPaused(context, params.hpc, false, body.reason, { actor: caller, idempotency }))[0],
    }),
  });
