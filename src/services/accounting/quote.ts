import type { Static } from 'typebox';
import type { QuoteSchema } from '../../contract/ledger.ts';
import { requirePayloadText, type SubmissionHeaders, toComparablePayload } from '../../contract/submission.ts';
import { calculateCostSeconds, maxAffordableRuntimeHours } from '../../domain/accounting/price.ts';
import { availableBalance } from '../../domain/accounting/settlement.ts';
import { quotaExceeded, type Shortfall } from '../../domain/accounting/shortfall.ts';
import type { JobRequest } from '../../domain/jobs/job.ts';
import { parsePayload } from '../../domain/jobs/payload.ts';
import { publicSystemName } from '../../domain/systems/system.ts';
import { countUnfinishedJobsOf } from '../../store/identity/users.ts';
import { readOnce } from '../idempotency.ts';
import type { Actor } from '../identity/actor.ts';
import {
  requireSubmissionTarget,
  type SubmissionTarget,
  type SubmissionTargetDeps,
} from '../jobs/submission-target.ts';
import { findJobLimitError, type UnfinishedJobs } from '../jobs/unfinished-job-limits.ts';
import type { PathScope } from '../scope.ts';

export interface QuoteRequest {
  actor: Actor;
  scope: PathScope;
  headers: SubmissionHeaders;
  idempotency: { key: string; target: string } | null;
}

/** The cost of a job and whether it would be accepted now. Asking holds nothing. */
export async function readQuote(
  deps: SubmissionTargetDeps,
  { actor, scope, headers, idempotency }: QuoteRequest,
): Promise<Static<typeof QuoteSchema>> {
  const { userId } = actor;
  const idempotentRequest = idempotency && {
    ...idempotency,
    userId,
    content: [idempotency.target, toComparablePayload(headers)],
  };
  return await readOnce(deps.db, idempotentRequest, deps.now(), async () => {
    const target = await requireSubmissionTarget(deps, actor, scope);
    const request = parsePayload(requirePayloadText(headers), target.system);
    const counts = { user: await countUnfinishedJobsOf(deps.db, userId), project: target.accounts.spacePool.openHolds };
    return publicQuote(target, request, counts);
  });
}

function publicQuote(
  target: SubmissionTarget,
  request: JobRequest,
  counts: UnfinishedJobs,
): Static<typeof QuoteSchema> {
  const { timeSeconds, timeLeftSeconds, maxRuntimeHours, shortfall } = quoteFor(target, request);
  const nextCounts = { user: counts.user + 1, project: counts.project + 1 };
  const refusal =
    shortfall === null
      ? findJobLimitError(nextCounts, target.maxUnfinishedJobs, target.project.name)
      : quotaExceeded(shortfall, maxRuntimeHours, target.system.charge);
  return {
    project_hpc: publicSystemName(target.project.hpc),
    project_name: target.project.name,
    runtime: request.runtimeHours,
    cost: timeSeconds,
    accepted: refusal === null,
    reason: refusal?.message ?? null,
    binding_account: shortfall?.account ?? null,
    time_left: timeLeftSeconds,
    longest_runtime: maxRuntimeHours,
  };
}

interface Quote {
  timeSeconds: number;
  /** The rest of the smaller of pool and cap, at least 0. */
  timeLeftSeconds: number;
  /** The longest runtime that the quota allows for these nodes and cores. */
  maxRuntimeHours: number;
  /** The reason why the job would be rejected. */
  shortfall: Shortfall | null;
}

export function quoteFor({ system, accounts }: SubmissionTarget, request: JobRequest): Quote {
  const needed = calculateCostSeconds(request, request.runtimeHours, system.charge);
  const time = smaller(availableBalance(accounts.timePool), availableBalance(accounts.timeCap));
  const space = smaller(availableBalance(accounts.spacePool), availableBalance(accounts.spaceCap));
  const available = Math.max(0, time.available);
  return {
    timeSeconds: needed,
    timeLeftSeconds: Math.max(0, time.available - needed),
    maxRuntimeHours: maxAffordableRuntimeHours(request, system.charge, time.available, system.limits.runtimeHours),
    shortfall:
      time.available < needed
        ? { resource: 'time', account: time.account, needed, available }
        : // The size of the zip is not known yet, but overused space rejects every job.
          space.available < 0
          ? { resource: 'space', account: space.account, needed: 0, available: 0 }
          : null,
  };
}

function smaller(pool: number, cap: number): { account: 'pool' | 'cap'; available: number } {
  return pool < cap ? { account: 'pool', available: pool } : { account: 'cap', available: cap };
}
