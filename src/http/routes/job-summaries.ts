import type { FastifyInstance } from 'fastify';
import Type, { type TProperties } from 'typebox';
import { toJobSummaryPageJson } from '../../contract/job-summary.ts';
import type { AccessService } from '../../services/identity/access.ts';
import type { JobService } from '../../services/jobs/job-service.ts';
import { describeRoute, describeVersioned } from '../openapi/describe-route.ts';
import { requestSignal } from '../request/abort-signals.ts';
import { actorOf } from '../request/authentication.ts';
import { formatCursor, parseSummaryQuery, summaryQuery } from '../request/list-query.ts';
import { type OwnerScope, ownerScopes } from '../request/owner-scope.ts';
import { queryScope, scopeQuery, userQuery } from '../request/path-params.ts';
import { sendTagged } from '../response/conditional.ts';
import { addResource } from './resource.ts';

/** Pages of jobs, newest first, with the fields that a table of jobs shows besides. */
export function jobSummaryRoutes(app: FastifyInstance, jobs: JobService, access: AccessService): void {
  const { own, byQuery } = ownerScopes('job-summaries', access);
  listRoute(app, jobs, { ...own, tag: 'jobs' }, {});
  listRoute(app, jobs, byQuery, userQuery);
}

function listRoute(app: FastifyInstance, jobs: JobService, scope: OwnerScope, query: TProperties): void {
  addResource(app, scope.prefix, {
    GET: {
      access: { action: 'jobs.read', reach: scope.reach },
      schema: {
        ...describeRoute(
          scope.tag,
          scope.operationId('listJobSummaries'),
          scope.describe('jobs, newest first, by pages'),
          describeVersioned(Type.Ref('JobSummaryPage'), 'One page of jobs.'),
        ),
        description: 'Each job with its tags, resources, start, outcome and charge. `next` leads to the older jobs.',
        querystring: Type.Object({ ...query, ...scopeQuery, ...summaryQuery }),
      },
      // `parseSummaryQuery` checks the query and gives better messages than a schema.
      validatorCompiler: () => () => true,
      handler: async (request, reply) => {
        const owner = await scope.ownerOf(request);
        const page = await jobs.listSummaries(
          actorOf(request).userId,
          owner,
          queryScope(request),
          parseSummaryQuery(request),
          requestSignal(reply),
        );
        const next = page.nextBefore === null ? null : formatCursor('before', page.nextBefore);
        return sendTagged(request, reply, toJobSummaryPageJson(page.jobs, next));
      },
    },
  });
}
