import type { FastifyReply } from 'fastify';
import Type from 'typebox';
import { ReasonBody, reasonQuery } from '../../contract/administration.ts';
import { JobSchema, JobSummaryPageSchema, toJobPath, toJobSummaryPageJson } from '../../contract/job.ts';
import { TimelineSchema } from '../../contract/timeline.ts';
import { requireUserId } from '../../services/identity/access.ts';
import { cancelJob } from '../../services/jobs/cancel-job.ts';
import { deleteJob } from '../../services/jobs/delete-job.ts';
import type { JobAction } from '../../services/jobs/find-job.ts';
import { listJobSummaries } from '../../services/jobs/job-summaries.ts';
import { listJobs, readJob } from '../../services/jobs/read-jobs.ts';
import { submitJob } from '../../services/jobs/submit-job.ts';
import { readTimeline } from '../../services/jobs/timeline.ts';
import type { Owner, PathScope } from '../../services/scope.ts';
import { type CallerRequest, json, operation, operations, others, own, versioned } from '../operation.ts';
import { formatCursor } from '../request/formats.ts';
import { listQuery, summaryQuery, toListQuery, toSummaryQuery } from '../request/list-query.ts';
import { requestSignal } from '../request/open-response.ts';
import { scopeQuery, toJob, toScope, userQuery } from '../request/path-params.ts';
import { submissionHeaderSchemas, submissionHeaders, zipBody } from '../request/submission.ts';
import type { RouteContext } from './context.ts';

const list = {
  description: 'All jobs or, with `limit`, one page: the header `Link` leads to the next page.',
  query: listQuery,
  responses: versioned(Type.Array(JobSchema), 'The jobs, by ascending id.', ['Link']),
};
const submission = {
  summary: 'Submit a job',
  description: 'The body is the zip itself, or a multipart form with the zip as its only file, or empty.',
  checkedHeaders: submissionHeaderSchemas,
  zip: true,
  responses: { 201: json(JobSchema, 'The new job.', ['Location']) },
} as const;
const oneJob = {
  description: 'The state that the HPC system last reported. Reading asks no scheduler.',
  responses: versioned(JobSchema, 'The job.'),
};
const timeline = {
  description:
    'Every transition with its reason; the request; the time that was requested, used, charged and refunded.',
  responses: { 200: json(TimelineSchema, 'The history of the job.') },
};
const cancellation = {
  description:
    '202 with the job as it is now: the system cancels it, and its end follows as the event `job.ended`. 200 with ' +
    'the unchanged job if it has already ended. Can be repeated, and never deletes files.',
  responses: {
    200: json(JobSchema, 'The job, which had already ended.'),
    202: json(JobSchema, 'The job, which the system will cancel.'),
  },
};
const deletion = {
  description: 'Can be repeated. An unfinished job is 409 `job_not_finished`: cancel it first.',
  responses: { 200: json(JobSchema, 'The job, without files.') },
};

const summaries = {
  description: 'Each job with its tags, resources, start, outcome and charge. `next` leads to the older jobs.',
  query: { ...scopeQuery, ...summaryQuery },
  responses: versioned(JobSummaryPageSchema, 'One page of jobs.'),
};

type SummaryRequest = CallerRequest<string, typeof summaries.query>;
type JobRequest = CallerRequest<'/{hpc}/{project_name}/{job_id}/'>;

/** Lists, reads, submits, cancels and deletes jobs (4.1 and 4.2 of the interface). */
export function jobOperations(context: RouteContext) {
  const submit = async (request: CallerRequest, reply: FastifyReply, scope: PathScope) => {
    const { caller, idempotency, span } = request;
    context.countOpenRequest('upload', caller.userId, reply);
    const job = await submitJob(context, {
      userId: caller.userId,
      scope,
      headers: submissionHeaders(request),
      ...zipBody(request),
      idempotency,
      traceParent: span?.traceParent ?? null,
    });
    reply.header('location', toJobPath(job));
    return job;
  };

  const cancel = async (request: JobRequest, reply: FastifyReply, action: JobAction) => {
    const { json: job, hasEnded } = await cancelJob(context, action, request.idempotency);
    reply.code(hasEnded ? 200 : 202);
    return job;
  };

  const actionOfOwner = ({ caller, params }: JobRequest): JobAction => ({
    ...toJob(params, caller.userId),
    actor: caller,
  });

  const intervention = ({ caller, params, isManager }: JobRequest, reason: string): JobAction => ({
    ...toJob(params, undefined),
    actor: caller,
    intervention: { reason, by: isManager ? 'project_manager' : caller.role },
  });

  const listSummaries = async ({ caller, query }: SummaryRequest, reply: FastifyReply, owner: Owner) => {
    const filter = toSummaryQuery(query);
    const scope = toScope(query);
    const found = await listJobSummaries(context, caller.userId, owner, scope, filter, requestSignal(reply));
    const next = found.nextBefore === null ? null : formatCursor('before', found.nextBefore);
    return toJobSummaryPageJson(found.jobs, next);
  };

  const requireOwner = async ({ user_id: userId }: { user_id?: string }): Promise<Owner> =>
    userId === undefined ? undefined : await requireUserId(context, userId);

  return operations('jobs', {
    listJobs: operation({
      route: 'GET /jobs/',
      access: own('jobs.read'),
      summary: 'Your jobs on all systems',
      ...list,
      handler: ({ caller, query }) => listJobs(context, caller.userId, {}, toListQuery(query)),
    }),
    listJobsOnSystem: operation({
      route: 'GET /jobs/{hpc}/',
      access: own('jobs.read'),
      summary: 'Your jobs on one system',
      ...list,
      handler: ({ caller, query, params }) => listJobs(context, caller.userId, toScope(params), toListQuery(query)),
    }),
    submitJob: operation({
      route: 'POST /jobs/{hpc}/',
      access: own('jobs.submit'),
      ...submission,
      handler: (request, reply) => submit(request, reply, toScope(request.params)),
    }),
    listJobsInProject: operation({
      route: 'GET /jobs/{hpc}/{project_name}/',
      access: own('jobs.read'),
      summary: 'Your jobs in one project',
      ...list,
      handler: ({ caller, query, params }) => listJobs(context, caller.userId, toScope(params), toListQuery(query)),
    }),
    submitJobToProject: operation({
      route: 'POST /jobs/{hpc}/{project_name}/',
      access: own('jobs.submit'),
      ...submission,
      handler: (request, reply) => submit(request, reply, toScope(request.params)),
    }),
    getJob: operation({
      route: 'GET /jobs/{hpc}/{project_name}/{job_id}/',
      access: own('jobs.read'),
      summary: 'Your job',
      ...oneJob,
      handler: ({ caller, params }) => readJob(context, toJob(params, caller.userId)),
    }),
    deleteJob: operation({
      route: 'DELETE /jobs/{hpc}/{project_name}/{job_id}/',
      access: own('jobs.delete'),
      summary: 'Your job: delete the files of a finished job',
      ...deletion,
      handler: (request) => deleteJob(context, actionOfOwner(request)),
    }),
    getJobTimeline: operation({
      route: 'GET /jobs/{hpc}/{project_name}/{job_id}/timeline/',
      access: own('jobs.read'),
      summary: 'Your job: its timeline',
      ...timeline,
      handler: ({ caller, params }) => readTimeline(context, toJob(params, caller.userId)),
    }),
    cancelJob: operation({
      route: 'POST /jobs/{hpc}/{project_name}/{job_id}/cancel/',
      access: own('jobs.cancel'),
      summary: 'Your job: cancel it',
      ...cancellation,
      handler: (request, reply) => cancel(request, reply, actionOfOwner(request)),
    }),

    listJobsOfAllUsers: operation({
      route: 'GET /admin/jobs/',
      access: others('jobs.read'),
      summary: 'Jobs of all users',
      ...list,
      query: { ...userQuery, ...scopeQuery, ...listQuery },
      handler: async ({ query }) => listJobs(context, await requireOwner(query), toScope(query), toListQuery(query)),
    }),
    getJobOfAnyUser: operation({
      route: 'GET /admin/jobs/{hpc}/{project_name}/{job_id}/',
      access: others('jobs.read'),
      summary: 'Job of any user',
      ...oneJob,
      handler: ({ params }) => readJob(context, toJob(params, undefined)),
    }),
    deleteJobOfAnyUser: operation({
      route: 'DELETE /admin/jobs/{hpc}/{project_name}/{job_id}/',
      access: others('jobs.delete'),
      summary: 'Job of any user: delete the files of a finished job',
      ...deletion,
      description: `${deletion.description} The owner is told the reason by the event \`job.deleted\`.`,
      query: reasonQuery,
      handler: (request) => deleteJob(context, intervention(request, request.query.reason)),
    }),
    getJobTimelineOfAnyUser: operation({
      route: 'GET /admin/jobs/{hpc}/{project_name}/{job_id}/timeline/',
      access: others('jobs.read'),
      summary: 'Job of any user: its timeline',
      ...timeline,
      handler: ({ params }) => readTimeline(context, toJob(params, undefined)),
    }),
    cancelJobOfAnyUser: operation({
      route: 'POST /admin/jobs/{hpc}/{project_name}/{job_id}/cancel/',
      access: others('jobs.cancel'),
      summary: 'Job of any user: cancel it',
      ...cancellation,
      description: `${cancellation.description} The owner is told the reason by the event \`job.cancel_requested\`.`,
      body: ReasonBody,
      handler: (request, reply) => cancel(request, reply, intervention(request, request.body.reason)),
    }),

    listJobSummaries: operation({
      route: 'GET /job-summaries/',
      access: own('jobs.read'),
      summary: 'Your jobs, newest first, by pages',
      ...summaries,
      handler: (request, reply) => listSummaries(request, reply, request.caller.userId),
    }),
    listJobSummariesOfAllUsers: operation({
      route: 'GET /admin/job-summaries/',
      access: others('jobs.read'),
      summary: 'Jobs of all users, newest first, by pages',
      ...summaries,
      query: { ...userQuery, ...summaries.query },
      handler: async (request, reply) => listSummaries(request, reply, await requireOwner(request.query)),
    }),
  });
}
