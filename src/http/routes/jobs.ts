import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type, { type Static } from 'typebox';
import { parsePayload } from '../../domain/payload.ts';
import type { Actor } from '../../services/actor.ts';
import type { Place } from '../../services/places.ts';
import type { Destination } from '../../services/submit-job.ts';
import { actorOf } from '../authentication.ts';
import { describe, sendJson } from '../openapi.ts';
import { resource } from '../resource.ts';
import { checkContentDisposition, payloadText, zipBody } from '../submission.ts';

export interface JobServices {
  listJobs(actor: Actor, place: Place): Promise<string>;
  readJob(actor: Actor, place: Required<Place>, jobId: string): Promise<string>;
  findDestination(actor: Actor, hpc: string, project: string | undefined): Promise<Destination>;
  submitJob(
    actor: Actor,
    destination: Destination,
    request: ReturnType<typeof parsePayload>,
    body: ReturnType<typeof zipBody>,
  ): Promise<string>;
}

const Hpc = Type.Object({ hpc: Type.String({ description: 'The HPC system, in lower case.' }) });
const Project = Type.Object({ ...Hpc.properties, project_name: Type.String() });
const SingleJob = Type.Object({ ...Project.properties, job_id: Type.String() });

const JobList = Type.Array(Type.Ref('Job'), { description: 'The jobs, by ascending id.' });
const OneJob = Type.Ref('Job');

const SubmissionHeaders = Type.Object({
  'content-disposition': Type.String({ description: 'attachment; filename=<file.zip>' }),
  payload: Type.String({
    description:
      'A JSON object: `command` (batch systems) or `tool` (tool systems), `node_number`, `core_number`, ' +
      '`runtime` in hours, `title`. Numbers as text or as numbers.',
  }),
});

/** Listing, reading and submitting jobs (4.1 and 4.2 of the interface). */
export function jobRoutes(app: FastifyInstance, services: JobServices): void {
  const submit = {
    schema: {
      ...describe('jobs', 'Submit a job', { 201: OneJob }),
      description: 'The body is the zip itself, or a multipart form with the zip as its one file, or empty.',
      headers: SubmissionHeaders,
      consumes: ['application/zip', 'multipart/form-data'],
    },
    // The headers are checked by the rules of the domain, which tell more than a schema can.
    validatorCompiler: () => () => true,
  };

  resource(app, '/jobs/', {
    GET: {
      schema: describe('jobs', 'All your jobs', { 200: JobList }),
      handler: async (request, reply) => sendJson(reply, 200, await services.listJobs(actorOf(request), {})),
    },
  });

  resource(app, '/jobs/:hpc/', {
    GET: {
      schema: { ...describe('jobs', 'Your jobs on one HPC system', { 200: JobList }), params: Hpc },
      handler: async (request, reply) => {
        const { hpc } = request.params as Static<typeof Hpc>;
        return sendJson(reply, 200, await services.listJobs(actorOf(request), { hpc }));
      },
    },
    POST: { ...submit, schema: { ...submit.schema, params: Hpc }, ...submission(services) },
  });

  resource(app, '/jobs/:hpc/:project_name/', {
    GET: {
      schema: { ...describe('jobs', 'Your jobs in one project', { 200: JobList }), params: Project },
      handler: async (request, reply) => {
        const { hpc, project_name: project } = request.params as Static<typeof Project>;
        return sendJson(reply, 200, await services.listJobs(actorOf(request), { hpc, project }));
      },
    },
    POST: { ...submit, schema: { ...submit.schema, params: Project }, ...submission(services) },
  });

  resource(app, '/jobs/:hpc/:project_name/:job_id/', {
    GET: {
      schema: { ...describe('jobs', 'One of your jobs', { 200: OneJob }), params: SingleJob },
      handler: async (request, reply) => {
        const { hpc, project_name: project, job_id: jobId } = request.params as Static<typeof SingleJob>;
        return sendJson(reply, 200, await services.readJob(actorOf(request), { hpc, project }, jobId));
      },
    },
  });
}

/** Everything that can be refused by the headers alone is refused before the body is read. */
function submission(services: JobServices) {
  const contentTypes = new WeakMap<object, string | undefined>();
  return {
    // The body is a stream of bytes whatever it is called, so its type is hidden from the framework's parsers.
    preParsing: async (request: FastifyRequest) => {
      contentTypes.set(request, request.headers['content-type']);
      delete request.headers['content-type'];
    },
    handler: async (request: FastifyRequest, reply: FastifyReply) => {
      const { hpc, project_name: project } = request.params as { hpc: string; project_name?: string };
      const actor = actorOf(request);
      const destination = await services.findDestination(actor, hpc, project);
      checkContentDisposition(request.headers['content-disposition']);
      const job = parsePayload(payloadText(request), destination.system);
      const body = zipBody(request, contentTypes.get(request));
      return sendJson(reply, 201, await services.submitJob(actor, destination, job, body));
    },
  };
}
