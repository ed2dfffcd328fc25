import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { JobRequest } from '../../domain/jobs/job.ts';
import type { IdempotentRequest, KeyClaim } from '../../services/idempotency.ts';
import type { Actor } from '../../services/identity/actor.ts';
import type { Destination } from '../../services/jobs/destination.ts';
import type { EndedJob } from '../../services/jobs/end-job.ts';
import type { JobListQuery } from '../../services/jobs/read-jobs.ts';
import type { PathScope } from '../../services/scope.ts';
import type { VersionedJson } from '../../services/versioned.ts';
import { actorOf } from '../request/authentication.ts';
import { idempotentRequest } from '../request/idempotency-key.ts';
import { listQuerySchema, readListQuery } from '../request/list-query.ts';
import { type OwnerScope, type OwnerScopeServices, ownerScopes } from '../request/owner-scope.ts';
import { hpcParam, jobIdOf, jobParams, pathScope, projectParams, projectPath } from '../request/path-params.ts';
import { payloadContent, readSubmission, submissionSchema, type ZipBody, zipBody } from '../request/submission.ts';
import { sendTagged, sendVersioned } from '../response/conditional.ts';
import type { ResponseCache } from '../response/response-cache.ts';
import { describe, sendJson } from '../server/openapi.ts';
import type { RateLimits } from '../server/rate-limits.ts';
import { type Handlers, resource } from './resource.ts';

export interface JobServices extends OwnerScopeServices {
  listJobs(
    owner: string | undefined,
    place: PathScope,
    query: JobListQuery,
    knownVersion: string | undefined,
  ): Promise<VersionedJson>;
  readJob(owner: string | undefined, place: Required<PathScope>, jobId: string): Promise<string>;
  findDestination(actor: Actor, place: PathScope): Promise<Destination>;
  endJob(actor: Actor, place: Required<PathScope>, jobId: string): Promise<EndedJob>;
  submitJob(
    actor: Actor,
    destination: Destination,
    request: JobRequest,
    body: ZipBody,
    claim: KeyClaim | null,
  ): Promise<string>;
  /** Submits, unless that was done before under the key: then the answer is the first one. */
  submitOnce(
    request: IdempotentRequest | null,
    body: ZipBody,
    submit: (claim: KeyClaim | null) => Promise<string>,
  ): Promise<string>;
}

const JobList = Type.Array(Type.Ref('Job'), { description: 'The jobs, by ascending id.' });
const OneJob = Type.Ref('Job');

/** Listing, reading and submitting jobs (4.1 and 4.2 of the interface); for administrators those of others too. */
export function jobRoutes(
  app: FastifyInstance,
  services: JobServices,
  cache: ResponseCache,
  limits: Pick<RateLimits, 'upload'>,
): void {
  const { own, ofUser, everybody } = ownerScopes('jobs', services);
  const submit = (params: typeof hpcParam) => ({
    POST: {
      schema: {
        ...describe('jobs', 'Submit a job', { 201: OneJob }),
        ...submissionSchema,
        params: Type.Object(params),
        description: 'The body is the zip itself, or a multipart form with the zip as its one file, or empty.',
      },
      // The headers are checked by the rules of the domain, which tell more than a schema can.
      validatorCompiler: () => () => true,
      ...submission(services, limits),
    },
  });
  const end = {
    DELETE: {
      schema: {
        ...describe('jobs', 'Cancel a job that is not finished; delete the files of one that is', {
          200: OneJob,
          202: OneJob,
        }),
        description: '200 with the job in its final stage; 202 while its system is still about ending it.',
        params: Type.Object(jobParams),
      },
      handler: async (request: FastifyRequest, reply: FastifyReply) => {
        const { json, ended } = await services.endJob(actorOf(request), projectPath(request), jobIdOf(request));
        return sendJson(reply, ended ? 200 : 202, json);
      },
    },
  };
  jobPaths(app, services, cache, own, { submit, end });
  jobPaths(app, services, cache, ofUser);
  jobPaths(app, services, cache, everybody);
}

function jobPaths(
  app: FastifyInstance,
  services: JobServices,
  cache: ResponseCache,
  whose: OwnerScope,
  own: { submit?: (params: typeof hpcParam) => Handlers; end?: Handlers } = {},
): void {
  const { prefix, tag } = whose;
  const list = async (request: FastifyRequest, reply: FastifyReply) => {
    const owner = await whose.ownerOf(request);
    const place = pathScope(request);
    const query = readListQuery(request);
    return sendVersioned(cache, request, reply, owner, (known) => services.listJobs(owner, place, query, known));
  };
  const listing = (where: string, params: object) => ({
    schema: {
      ...describe(tag, whose.describe(`jobs ${where}`), { 200: JobList }),
      description: 'All of them, or with `limit` page by page: the header `Link` leads to the next page.',
      params: Type.Object({ ...whose.params, ...params }),
      querystring: listQuerySchema,
    },
    // The query is checked by `readListQuery`, which tells more than a schema can.
    validatorCompiler: () => () => true,
    handler: list,
  });

  resource(app, prefix, { GET: listing('on all systems', {}) });
  resource(app, `${prefix}:hpc/`, { GET: listing('on one system', hpcParam), ...own.submit?.(hpcParam) });
  resource(app, `${prefix}:hpc/:project_name/`, {
    GET: listing('in one project', projectParams),
    ...own.submit?.(projectParams),
  });
  resource(app, `${prefix}:hpc/:project_name/:job_id/`, {
    GET: {
      schema: {
        ...describe(tag, whose.describe('jobs: one of them'), { 200: OneJob }),
        params: Type.Object({ ...whose.params, ...jobParams }),
      },
      handler: async (request, reply) => {
        const owner = await whose.ownerOf(request);
        return sendTagged(request, reply, await services.readJob(owner, projectPath(request), jobIdOf(request)));
      },
    },
    ...own.end,
  });
}

/** Everything that can be refused by the headers alone is refused before the body is read. */
function submission(services: JobServices, limits: Pick<RateLimits, 'upload'>) {
  const contentTypes = new WeakMap<FastifyRequest, string | undefined>();
  return {
    // The body is a stream of bytes whatever it is called, so its type is hidden from the framework's parsers.
    preParsing: async (request: FastifyRequest) => {
      contentTypes.set(request, request.headers['content-type']);
      delete request.headers['content-type'];
    },
    handler: async (request: FastifyRequest, reply: FastifyReply) => {
      const actor = actorOf(request);
      const over = limits.upload(actor.userId);
      try {
        const body = zipBody(request, contentTypes.get(request));
        const once = idempotentRequest(request, () => payloadContent(request));
        const json = await services.submitOnce(once, body, async (claim) => {
          const destination = await services.findDestination(actor, pathScope(request));
          const job = readSubmission(request, destination.system);
          return await services.submitJob(actor, destination, job, body, claim);
        });
        return sendJson(reply, 201, json);
      } finally {
        over();
      }
    },
  };
}
