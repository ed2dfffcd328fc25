import type { FastifyReply } from 'fastify';
import { JobSummaryPageSchema, toJobSummaryPageJson } from '../../contract/job.ts';
import { requireUserId } from '../../services/identity/access.ts';
import { listJobSummaries } from '../../services/jobs/job-summaries.ts';
import type { Owner } from '../../services/scope.ts';
import { type CallerRequest, operation, operations, others, own, versioned } from '../operation.ts';
import { formatCursor } from '../request/formats.ts';
import { summaryQuery, toSummaryQuery } from '../request/list-query.ts';
import { requestSignal } from '../request/open-response.ts';
import { scopeQuery, toScope, userQuery } from '../request/path-params.ts';
import type { RouteContext } from './context.ts';

const query = { ...scopeQuery, ...summaryQuery };
const page = {
  description: 'Each job with its tags, resources, start, outcome and charge. `next` leads to the older jobs.',
  query,
  responses: versioned(JobSummaryPageSchema, 'One page of jobs.'),
};

type SummaryRequest = CallerRequest<string, typeof query>;

/** Pages of jobs, newest first, with the fields that a table of jobs shows besides. */
export function jobSummaryOperations(context: RouteContext) {
  const list = async ({ caller, query }: SummaryRequest, reply: FastifyReply, owner: Owner) => {
    const filter = toSummaryQuery(query);
    const scope = toScope(query);
    const found = await listJobSummaries(context, caller.userId, owner, scope, filter, requestSignal(reply));
    const next = found.nextBefore === null ? null : formatCursor('before', found.nextBefore);
    return toJobSummaryPageJson(found.jobs, next);
  };

  return operations('jobs', {
    listJobSummaries: operation({
      route: 'GET /job-summaries/',
      access: own('jobs.read'),
      summary: 'Your jobs, newest first, by pages',
      ...page,
      handler: (request, reply) => list(request, reply, request.caller.userId),
    }),
    listJobSummariesOfAllUsers: operation({
      route: 'GET /admin/job-summaries/',
      access: others('jobs.read'),
      summary: 'Jobs of all users, newest first, by pages',
      ...page,
      query: { ...userQuery, ...query },
      handler: async (request, reply) => {
        const { user_id: owner } = request.query;
        if (owner !== undefined) await requireUserId(context, owner);
        return list(request, reply, owner);
      },
    }),
  });
}
