import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { toJobPath } from '../../contract/job.ts';
import type { AccessService } from '../../services/identity/access.ts';
import type { JobService } from '../../services/jobs/job-service.ts';
import { actorOf } from '../request/authentication.ts';
import { idempotentRequest, keyAndTarget, keyHeader } from '../request/idempotency-key.ts';
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
const CreatedJob = Type.Ref('Job', {
  description: 'The accepted job.',
  headers: { Location: Type.String({ description: 'Path of the job.', format: 'uri-reference' }) },
});

/** Lists, reads, submits, cancels and deletes jobs (4.1 and 4.2 of the interface). Only users submit jobs. */
export function jobRoutes(
  app: FastifyInstance,
  jobs: JobService,
  access: AccessService,
  limits: Pick<RateLimits, 'upload'>,
): void {
  const { own, ofUser, allUsers } = ownerScopes('jobs', access);
  listPaths(app, jobs, own, submitHandlers(jobs, limits));
  listPaths(app, jobs, ofUser);
  listPaths(app, jobs, allUsers);
  for (const scope of [own, ofUser, allUsers]) jobPaths(app, jobs, scope);
}

type SubmitHandlers = (params: typeof hpcParam) => Handlers;

function listPaths(app: FastifyInstance, jobs: JobService, scope: OwnerScope, submit?: SubmitHandlers): void {
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
  addResource(app, `${prefix}:hpc/`, { GET: list('on one system', hpcParam), ...submit?.(hpcParam) });
  addResource(app, `${prefix}:hpc/:project_name/`, {
    GET: list('in one project', projectParams),
    ...submit?.(projectParams),
  });
}

function jobPaths(app: FastifyInstance, jobs: JobService, scope: OwnerScope): void {
  const { tag } = scope;
  const path = `${scope.prefix}:hpc/:project_name/:job_id/`;
  const params = Type.Object({ ...scope.params, ...jobParams });
  const actionOf = async (request: FastifyRequest) => ({
    actor: actorOf(request),
    owner: await scope.ownerOf(request),
    scope: projectScope(request),
    jobId: jobIdOf(request),
  });
  addResource(app, path, {
    GET: {
      schema: { ...describeRoute(tag, scope.describe('jobs: one job'), { 200: OneJob }), params },
      handler: async (request, reply) => {
        const owner = await scope.ownerOf(request);
        return sendTagged(request, reply, await jobs.read(owner, projectScope(request), jobIdOf(request)));
      },
    },
    DELETE: {
      schema: {
        ...describeRoute(tag, scope.describe('jobs: delete the files of a finished job'), { 200: OneJob }),
        description: 'Can be repeated. An unfinished job is 409 `job_not_finished`: cancel it first.',
        params,
      },
      handler: async (request, reply) => sendJson(reply, 200, await jobs.delete(await actionOf(request))),
    },
  });
  addResource(app, `${path}cancel/`, {
    POST: {
      schema: {
        ...describeRoute(tag, scope.describe('jobs: cancel one job'), { 200: OneJob, 202: OneJob }),
        description:
          '202 with the job as it is now: the system cancels it, and its end follows as the event `job.ended`. 200 with ' +
          'the unchanged job if it has already ended. Can be repeated, and never deletes files.',
        params,
        headers: Type.Object(keyHeader),
      },
      handler: async (request, reply) => {
        const { json, hasEnded } = await jobs.cancel(await actionOf(request), idempotentRequest(request));
        return sendJson(reply, hasEnded ? 200 : 202, json);
      },
    },
  });
  addResource(app, `${path}timeline/`, {
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
        ...describeRoute('jobs', 'Submit a job', { 201: CreatedJob }),
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
          return sendJson(reply.header('location', toJobPath(json)), 201, json);
        } finally {
          endUpload();
        }
      },
    },
  });
}
