import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import type { PathScope } from '../../services/scope.ts';
import { type OwnerScopeServices, ownerScopes } from '../request/owner-scope.ts';
import { jobIdOf, jobParams, projectPath } from '../request/path-params.ts';
import { describe, sendJson } from '../server/openapi.ts';
import { resource } from './resource.ts';

export interface TimelineServices extends OwnerScopeServices {
  readTimeline(owner: string | undefined, place: Required<PathScope>, jobId: string): Promise<string>;
}

/** What became of a job, step by step, with what was asked, used and charged. */
export function timelineRoutes(app: FastifyInstance, services: TimelineServices): void {
  const { own, ofUser, everybody } = ownerScopes('jobs', services);
  for (const whose of [own, ofUser, everybody]) {
    resource(app, `${whose.prefix}:hpc/:project_name/:job_id/timeline/`, {
      GET: {
        schema: {
          ...describe(whose.tag, whose.describe('jobs: the timeline of one of them'), { 200: Type.Ref('Timeline') }),
          params: Type.Object({ ...whose.params, ...jobParams }),
        },
        handler: async (request, reply) => {
          const owner = await whose.ownerOf(request);
          return sendJson(reply, 200, await services.readTimeline(owner, projectPath(request), jobIdOf(request)));
        },
      },
    });
  }
}
