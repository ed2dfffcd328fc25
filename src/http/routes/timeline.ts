import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import type { Place } from '../../services/scope.ts';
import { type AudienceServices, audiencesOf } from '../request/owner-scope.ts';
import { jobIdOf, jobParams, projectOf } from '../request/path-params.ts';
import { describe, sendJson } from '../server/openapi.ts';
import { resource } from './resource.ts';

export interface TimelineServices extends AudienceServices {
  readTimeline(owner: string | undefined, place: Required<Place>, jobId: string): Promise<string>;
}

/** What became of a job, step by step, with what was asked, used and charged. */
export function timelineRoutes(app: FastifyInstance, services: TimelineServices): void {
  const { own, ofUser, everybody } = audiencesOf('jobs', services);
  for (const whose of [own, ofUser, everybody]) {
    resource(app, `${whose.prefix}:hpc/:project_name/:job_id/timeline/`, {
      GET: {
        schema: {
          ...describe(whose.tag, whose.describe('jobs: the timeline of one of them'), { 200: Type.Ref('Timeline') }),
          params: Type.Object({ ...whose.params, ...jobParams }),
        },
        handler: async (request, reply) => {
          const owner = await whose.ownerOf(request);
          return sendJson(reply, 200, await services.readTimeline(owner, projectOf(request), jobIdOf(request)));
        },
      },
    });
  }
}
