import type { Static } from 'typebox';
import type { QuoteSchema } from '../../contract/ledger.ts';
import { calculateCostSeconds, maxAffordableRuntimeHours } from '../../domain/accounting/price.ts';
import { availableBalance } from '../../domain/accounting/settlement.ts';
import { quotaExceeded, type Shortfall } from '../../domain/accounting/shortfall.ts';
import type { JobRequest } from '../../domain/jobs/job.ts';
import { publicSystemName } from '../../domain/systems/system.ts';
import type { Destination } from '../jobs/destination.ts';

export interface Quote {
  timeSeconds: number;
  /** What would be left of the smaller of pool and cap; not below zero. */
  timeLeftSeconds: number;
  /** Hours that would fit now, for so many nodes and cores. */
  longestRuntime: number;
  /** Why it would be refused, if it would. */
  lack: Shortfall | null;
}

/** What a job would cost, and whether it would be taken now. Nothing is held by asking. */
export function quoteFor({ system, accounts }: Destination, request: JobRequest): Quote {
  const needed = calculateCostSeconds(request, request.runtimeHours, system.charge);
  const inPool = availableBalance(accounts.timePool);
  const inCap = availableBalance(accounts.timeCap);
  const free = Math.min(inPool, inCap);
  const account = inPool < inCap ? 'pool' : 'cap';
  const inSpacePool = availableBalance(accounts.spacePool);
  const inSpaceCap = availableBalance(accounts.spaceCap);
  const timeLack: Shortfall | null =
    free >= needed ? null : { resource: 'time', account, needed, available: Math.max(0, free) };
  // What a job brings is known only when its zip is there; but more use than there is blocks every job.
  const spaceLack: Shortfall | null =
    Math.min(inSpacePool, inSpaceCap) >= 0
      ? null
      : { resource: 'space', account: inSpacePool < inSpaceCap ? 'pool' : 'cap', needed: 0, available: 0 };
  return {
    timeSeconds: needed,
    timeLeftSeconds: Math.max(0, free - needed),
    longestRuntime: maxAffordableRuntimeHours(request, system.charge, free, system.limits.runtimeHours),
    lack: timeLack ?? spaceLack,
  };
}

/** The quote as its caller sees it. */
export function publicQuote(destination: Destination, request: JobRequest): Static<typeof QuoteSchema> {
  const { timeSeconds, timeLeftSeconds, longestRuntime, lack } = quoteFor(destination, request);
  return {
    project_hpc: publicSystemName(destination.project.hpc),
    project_name: destination.project.name,
    runtime: request.runtimeHours,
    cost: timeSeconds,
    accepted: lack === null,
    reason: lack === null ? null : quotaExceeded(lack, longestRuntime).message,
    binding_account: lack?.account ?? null,
    time_left: timeLeftSeconds,
    longest_runtime: longestRuntime,
  };
}
