import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { AccessService } from '../../services/identity/access.ts';
import type { JobService } from '../../services/jobs/job-service.ts';
import { actorOf } from '../request/authentication.ts';
import { keyAndTarget } from '../request/idempotency-key.ts';
import { listQuerySchema, parseListQuery } from '../request/list-query.ts';
import { type OwnerScope, ownerScopes } from '../request/owner-scope.ts';
import { hpcParam, jobIdOf, jobParams, pathScope, projectParams, projectScope } from '../request/path-params.ts';
import { submissionHeaders, submissionSchema, zipBody } from '../request/submission.ts';
import { sendTagged, sendVersioned } from '../response/conditional.ts';
import { sendJson } from '../response/send.ts';
import { describeRoute } from '../server/openapi.ts';
import type { RateLimits } from '../server/rate-limits.ts';
import { addResource, type Handlers } from './resource.ts';

const JobList = Type.Array(Type.Ref('Job'), { description: 'The jobs, by ascending id.' });
const OneJob = Type.Ref('Job');

/** Lists, reads, submits and ends jobs (4.1 and 4.2 of the interface). Administrators can read all jobs. */
export function jobRoutes(
  app: FastifyInstance,
  jobs: JobService,
  access: AccessService,
  limits: Pick<RateLimits, 'upload'>,
): void {
  const { own, ofUser, allUsers } = ownerScopes('jobs', access);
  jobPaths(app, jobs, own, { submit: submitHandlers(jobs, limits), end: endHandlers(jobs) });
  jobPaths(app, jobs, ofUser);
  jobPaths(app, jobs, allUsers);
}

type SubmitHandlers = (params: typeof hpcParam) => Handlers;

function jobPaths(
  app: FastifyInstance,
  jobs: JobService,
  scope: OwnerScope,
  write: { submit?: SubmitHandlers; end?: Handlers } = {},
): void {
  const { prefix, tag } = scope;
  const list = (where: string, params: object) => ({
    schema: {
      ...describeRoute(tag, scope.describe(`jobs ${where}`), { 200: JobList }),
      description: 'All jobs or, with `limit`, one page: the header `Link` leads to the next page.',
      params: Type.Object({ ...scope.params, ...params }),
      querystring: listQuerySchema,
    },
    // `parseListQuery` checks the query and gives better messages than a schema.
    validatorCompiler: () => () => true,
    handler: async (request: FastifyRequest, reply: FastifyReply) => {
      const owner = await scope.ownerOf(request);
      return sendVersioned(request, reply, owner, await jobs.list(owner, pathScope(request), parseListQuery(request)));
    },
  });
  addResource(app, prefix, { GET: list('on all systems', {}) });
  addResource(app, `${prefix}:hpc/`, { GET: list('on one system', hpcParam), ...write.submit?.(hpcParam) });
  addResource(app, `${prefix}:hpc/:project_name/`, {
    GET: list('in one project', projectParams),
    ...write.submit?.(projectParams),
  });
  const params = Type.Object({ ...scope.params, ...jobParams });
  addResource(app, `${prefix}:hpc/:project_name/:job_id/`, {
    GET: {
      schema: { ...describeRoute(tag, scope.describe('jobs: one job'), { 200: OneJob }), params },
      handler: async (request, reply) => {
        const owner = await scope.ownerOf(request);
        return sendTagged(request, reply, await jobs.read(owner, projectScope(request), jobIdOf(request)));
      },
    },
    ...write.end,
  });
  addResource(app, `${prefix}:hpc/:project_name/:job_id/timeline/`, {
    GET: {
      schema: {
        ...describeRoute(tag, scope.describe('jobs: the timeline of one job'), { 200: Type.Ref('Timeline') }),
        params,
      },
      handler: async (request, reply) => {
        const owner = await scope.ownerOf(request);
        return sendJson(reply, 200, await jobs.timeline(owner, projectScope(request), jobIdOf(request)));
      },
    },
  });
}

function submitHandlers(jobs: JobService, limits: Pick<RateLimits, 'upload'>): SubmitHandlers {
  const contentTypes = new WeakMap<FastifyRequest, string | undefined>();
  return (params) => ({
    POST: {
      schema: {
        ...describeRoute('jobs', 'Submit a job', { 201: OneJob }),
        ...submissionSchema,
        params: Type.Object(params),
        description: 'The body is the zip itself, or a multipart form with the zip as its only file, or empty.',
      },
      // The service checks the headers and gives better messages than a schema.
      validatorCompiler: () => () => true,
      // The body is a stream of bytes whatever its type, so Fastify's parsers must not see the type.
      preParsing: async (request: FastifyRequest) => {
        contentTypes.set(request, request.headers['content-type']);
        delete request.headers['content-type'];
      },
      handler: async (request: FastifyRequest, reply: FastifyReply) => {
        const actor = actorOf(request);
        const endUpload = limits.upload(actor.userId);
        try {
          const json = await jobs.submit({
            actor,
            scope: pathScope(request),
            headers: submissionHeaders(request),
            body: zipBody(request, contentTypes.get(request)),
            idempotency: keyAndTarget(request),
          });
          return sendJson(reply, 201, json);
        } finally {
          endUpload();
        }
      },
    },
  });
}

function endHandlers(jobs: JobService): Handlers {
  return {
    DELETE: {
      schema: {
        ...describeRoute('jobs', 'Cancel an unfinished job; delete the files of a finished one', {
          200: OneJob,
          202: OneJob,
        }),
        description: '200 with the job in its final stage; 202 while the system is still cancelling it.',
        params: Type.Object(jobParams),
      },
      handler: async (request: FastifyRequest, reply: FastifyReply) => {
        const { json, ended } = await jobs.end(actorOf(request), projectScope(request), jobIdOf(request));
        return sendJson(reply, ended ? 200 : 202, json);
      },
    },
  };
}
