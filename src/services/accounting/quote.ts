import type { Static } from 'typebox';
import type { QuoteSchema } from '../../contract/ledger.ts';
import { requirePayloadText, type SubmissionHeaders, toComparablePayload } from '../../contract/submission.ts';
import { parsePayload } from '../../domain/jobs/payload.ts';
import { publicSystemName } from '../../domain/systems/system.ts';
import { countUnfinishedJobsOf } from '../../store/identity/users.ts';
import { findStoredResponse, type IdempotentRequest, runOnce } from '../idempotency.ts';
import {
  findJobLimitError,
  quoteFor,
  requireSubmissionTarget,
  type SubmissionTargetDeps,
} from '../jobs/submission-target.ts';
import type { PathScope } from '../scope.ts';

export interface QuoteRequest {
  userId: string;
  scope: PathScope;
  headers: SubmissionHeaders;
  idempotency: IdempotentRequest | null;
}

type PublicQuote = Static<typeof QuoteSchema>;

/** The cost of a job and whether it would be accepted now. Asking holds nothing. */
export async function readQuote(deps: SubmissionTargetDeps, request: QuoteRequest): Promise<PublicQuote> {
  const { headers } = request;
  const idempotency = request.idempotency && {
    ...request.idempotency,
    content: [request.idempotency.content, toComparablePayload(headers)],
  };
  const earlier = await findStoredResponse<PublicQuote>(deps.db, idempotency);
  if (earlier !== undefined) return earlier;
  const quote = await calculateQuote(deps, request);
  // A transaction only for a response to store.
  return idempotency === null ? quote : await runOnce(deps.db, idempotency, deps.now(), async () => quote);
}

async function calculateQuote(
  deps: SubmissionTargetDeps,
  { userId, scope, headers }: QuoteRequest,
): Promise<PublicQuote> {
  const target = await requireSubmissionTarget(deps, userId, scope);
  const { project, system, accounts } = target;
  const request = parsePayload(requirePayloadText(headers), system);
  const quote = quoteFor(target, request);
  const unfinishedJobs = await countUnfinishedJobsOf(deps.db, userId);
  const counts = { user: unfinishedJobs + 1, project: accounts.spacePool.openHolds + 1 };
  const refusal = quote.refusal ?? findJobLimitError(target, counts);
  return {
    project_hpc: publicSystemName(project.hpc),
    project_name: project.name,
    runtime: request.runtimeHours,
    cost: quote.timeSeconds,
    accepted: refusal === null,
    reason: refusal?.message ?? null,
    binding_account: quote.shortfall?.account ?? null,
    time_left: quote.timeLeftSeconds,
    longest_runtime: quote.maxRuntimeHours,
  };
}
