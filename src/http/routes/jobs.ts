import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type, { type Static, type TObject, type TProperties } from 'typebox';
import { ReasonBody, reasonQuery } from '../../contract/administration.ts';
import { toJobPath } from '../../contract/job.ts';
import type { AccessService } from '../../services/identity/access.ts';
import type { JobAction } from '../../services/jobs/find-job.ts';
import type { JobService } from '../../services/jobs/job-service.ts';
import type { PathScope } from '../../services/scope.ts';
import type { OpenRequests } from '../limits/open-requests.ts';
import { describeJson, describeRoute, describeVersioned } from '../openapi/describe-route.ts';
import { actorOf } from '../request/authentication.ts';
import { idempotentRequest, keyAndTarget, keyHeader } from '../request/idempotency-key.ts';
import { listQuery, parseListQuery } from '../request/list-query.ts';
import { type OwnerScope, ownerScopes } from '../request/owner-scope.ts';
import {
  hpcParam,
  jobIdOf,
  jobParams,
  pathScope,
  projectParams,
  projectScope,
  queryScope,
  scopeQuery,
  userQuery,
} from '../request/path-params.ts';
import { submissionHeaders, submissionSchema, zipBody } from '../request/submission.ts';
import { sendTagged, sendVersioned } from '../response/conditional.ts';
import { sendJson } from '../response/send.ts';
import { addResource, type Handler, type Handlers } from './resource.ts';

const JobList = Type.Array(Type.Ref('Job'));
const OneJob = Type.Ref('Job');

/** Lists, reads, submits, cancels and deletes jobs (4.1 and 4.2 of the interface). Only users submit jobs. */
export function jobRoutes(
  app: FastifyInstance,
  jobs: JobService,
  access: AccessService,
  openRequests: Pick<OpenRequests, 'open'>,
): void {
  const { own, anyUser, byQuery } = ownerScopes('jobs', access);
  const list = (operationId: string, where: string, params: TProperties) => {
    const summary = `Your jobs ${where}`;
    return listHandler(jobs, own, { operationId, summary, params, query: listQuery, scopeOf: pathScope });
  };
  const submit = submitHandlers(jobs, openRequests);
  addResource(app, '/jobs/', { GET: list('listJobs', 'on all systems', {}) });
  addResource(app, '/jobs/:hpc/', {
    GET: list('listJobsOnSystem', 'on one system', hpcParam),
    ...submit('submitJob', hpcParam),
  });
  addResource(app, '/jobs/:hpc/:project_name/', {
    GET: list('listJobsInProject', 'in one project', projectParams),
    ...submit('submitJobToProject', projectParams),
  });
  jobPaths(app, jobs, own);
  addResource(app, cancelPath(own), { POST: cancelHandler(jobs, own, { headers: Type.Object(keyHeader) }) });

  const query = { ...userQuery, ...scopeQuery, ...listQuery };
  addResource(app, '/admin/jobs/', {
    GET: listHandler(jobs, byQuery, {
      operationId: byQuery.operationId('listJobs'),
      summary: byQuery.describe('jobs'),
      params: {},
      query,
      scopeOf: queryScope,
    }),
  });
  jobPaths(app, jobs, anyUser);
}

interface ListOptions {
  operationId: string;
  summary: string;
  params: TProperties;
  query: TProperties;
  scopeOf(request: FastifyRequest): PathScope;
}

function listHandler(
  jobs: JobService,
  scope: OwnerScope,
  { operationId, summary, params, query, scopeOf }: ListOptions,
): Handler {
  return {
    access: { action: 'jobs.read', reach: scope.reach },
    schema: {
      ...describeRoute(
        scope.tag,
        operationId,
        summary,
        describeVersioned(JobList, 'The jobs, by ascending id.', ['Link']),
      ),
      description: 'All jobs or, with `limit`, one page: the header `Link` leads to the next page.',
      params: Type.Object(params),
      querystring: Type.Object(query),
    },
    // `parseListQuery` checks the query and gives better messages than a schema.
    validatorCompiler: () => () => true,
    handler: async (request: FastifyRequest, reply: FastifyReply) => {
      const owner = await scope.ownerOf(request);
      return sendVersioned(request, reply, owner, await jobs.list(owner, scopeOf(request), parseListQuery(request)));
    },
  };
}

/** Cancels jobs of other users. The reason is JSON, unlike the bodies of the other paths of jobs. */
export function adminCancelRoutes(app: FastifyInstance, jobs: JobService, access: AccessService): void {
  const { anyUser } = ownerScopes('jobs', access);
  const schema = { headers: Type.Object(keyHeader), body: ReasonBody };
  addResource(app, cancelPath(anyUser), { POST: cancelHandler(jobs, anyUser, schema) });
}

const jobPath = (scope: OwnerScope) => `${scope.prefix}:hpc/:project_name/:job_id/`;
const cancelPath = (scope: OwnerScope) => `${jobPath(scope)}cancel/`;

async function toAction(request: FastifyRequest, scope: OwnerScope, reason: string | undefined): Promise<JobAction> {
  const actor = actorOf(request);
  const by = request.isManager ? 'project_manager' : actor.role;
  return {
    actor,
    owner: await scope.ownerOf(request),
    scope: projectScope(request),
    jobId: jobIdOf(request),
    ...(reason !== undefined && { intervention: { reason, by } }),
  };
}

function cancelHandler(jobs: JobService, scope: OwnerScope, schema: { headers: TObject; body?: TObject }): Handler {
  return {
    access: { action: 'jobs.cancel', reach: scope.reach },
    schema: {
      ...describeRoute(scope.tag, scope.operationId('cancelJob'), scope.describe('job: cancel it'), {
        200: describeJson(OneJob, 'The job, which had already ended.'),
        202: describeJson(OneJob, 'The job, which the system will cancel.'),
      }),
      description:
        '202 with the job as it is now: the system cancels it, and its end follows as the event `job.ended`. 200 with ' +
        'the unchanged job if it has already ended. Can be repeated, and never deletes files.' +
        (scope.reach === 'others' ? ' The owner is told the reason by the event `job.cancel_requested`.' : ''),
      params: Type.Object({ ...scope.params, ...jobParams }),
      ...schema,
    },
    handler: async (request, reply) => {
      const { reason } = (request.body ?? {}) as Partial<Static<typeof ReasonBody>>;
      const action = await toAction(request, scope, reason);
      const { json, hasEnded } = await jobs.cancel(action, idempotentRequest(request));
      return sendJson(reply, hasEnded ? 200 : 202, json);
    },
  };
}

function jobPaths(app: FastifyInstance, jobs: JobService, scope: OwnerScope): void {
  const { tag } = scope;
  const path = jobPath(scope);
  const params = Type.Object({ ...scope.params, ...jobParams });
  const ofOthers = scope.reach === 'others';
  addResource(app, path, {
    GET: {
      access: { action: 'jobs.read', reach: scope.reach },
      schema: {
        ...describeRoute(
          tag,
          scope.operationId('getJob'),
          scope.describe('job'),
          describeVersioned(OneJob, 'The job.'),
        ),
        description: 'The state that the HPC system last reported. Reading asks no scheduler.',
        params,
      },
      handler: async (request, reply) => {
        const owner = await scope.ownerOf(request);
        return sendTagged(request, reply, await jobs.read(owner, projectScope(request), jobIdOf(request)));
      },
    },
    DELETE: {
      access: { action: 'jobs.delete', reach: scope.reach },
      schema: {
        ...describeRoute(
          tag,
          scope.operationId('deleteJob'),
          scope.describe('job: delete the files of a finished job'),
          {
            200: describeJson(OneJob, 'The job, without files.'),
          },
        ),
        description:
          'Can be repeated. An unfinished job is 409 `job_not_finished`: cancel it first.' +
          (ofOthers ? ' The owner is told the reason by the event `job.deleted`.' : ''),
        params,
        ...(ofOthers && { querystring: Type.Object(reasonQuery) }),
      },
      handler: async (request, reply) => {
        const { reason } = request.query as { reason?: string };
        return sendJson(reply, 200, await jobs.delete(await toAction(request, scope, reason)));
      },
    },
  });
  addResource(app, `${path}timeline/`, {
    GET: {
      access: { action: 'jobs.read', reach: scope.reach },
      schema: {
        ...describeRoute(tag, scope.operationId('getJobTimeline'), scope.describe('job: its timeline'), {
          200: describeJson(Type.Ref('Timeline'), 'The history of the job.'),
        }),
        description:
          'Every transition with its reason; the request; the time that was requested, used, charged and refunded.',
        params,
      },
      handler: async (request, reply) => {
        const owner = await scope.ownerOf(request);
        return sendJson(reply, 200, await jobs.timeline(owner, projectScope(request), jobIdOf(request)));
      },
    },
  });
}

function submitHandlers(
  jobs: JobService,
  openRequests: Pick<OpenRequests, 'open'>,
): (operationId: string, params: TProperties) => Handlers {
  const contentTypes = new WeakMap<FastifyRequest, string | undefined>();
  return (operationId, params) => ({
    POST: {
      access: { action: 'jobs.submit', reach: 'own' },
      schema: {
        ...describeRoute('jobs', operationId, 'Submit a job', {
          201: describeJson(OneJob, 'The new job.', ['Location']),
        }),
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
        const endUpload = openRequests.open('upload', actor.userId);
        try {
          const json = await jobs.submit({
            actor,
            scope: pathScope(request),
            headers: submissionHeaders(request),
            ...zipBody(request, contentTypes.get(request)),
            idempotency: keyAndTarget(request),
            traceParent: request.span?.traceParent ?? null,
          });
          return sendJson(reply.header('location', toJobPath(json)), 201, json);
        } finally {
          endUpload();
        }
      },
    },
  });
}
