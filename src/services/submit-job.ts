import type { Readable } from 'node:stream';
import { jobJson } from '../contract/job.ts';
import { BursarError } from '../domain/errors.ts';
import type { JobRequest } from '../domain/job.ts';
import { costSeconds, unitsOf } from '../domain/price.ts';
import { available } from '../domain/settlement.ts';
import { type HpcSystem, newJobId } from '../domain/system.ts';
import type { Spool, Upload } from '../files/spool.ts';
import { inspectZip, type ZipLimits } from '../files/zip-directory.ts';
import { type AccountSet, findAccounts } from '../store/accounts.ts';
import { insertEvent } from '../store/events.ts';
import { insertJob, type NewJob } from '../store/jobs.ts';
import { type Amounts, reserve } from '../store/ledger.ts';
import { currentPeriod, membershipOf, type ProjectRecord } from '../store/projects.ts';
import type { Db } from '../store/tables.ts';
import type { Actor } from './actor.ts';
import { projectNamed, type Systems, systemNamed } from './places.ts';

export interface SubmissionDeps {
  db: Db;
  systems: Systems;
  /** The default project of a system: the first one that its configuration lists. */
  defaultProject(hpc: string): string;
  spool: Spool;
  zipLimits: ZipLimits;
  maxBodyBytes: number;
  now(): number;
  newUuid(): string;
  /** Called once a job of the system is durable, so that the dispatcher need not wait. */
  wake(hpc: string): void;
}

/** Where a submission goes, checked before anything of its body is read. */
export interface Destination {
  system: HpcSystem;
  project: ProjectRecord;
  accounts: AccountSet;
}

/** Throws unless the caller may submit there: 404 for what does not exist, 403 for a project of others. */
export async function findDestination(
  deps: SubmissionDeps,
  actor: Actor,
  hpc: string,
  projectName: string | undefined,
): Promise<Destination> {
  const { db, systems } = deps;
  const system = systemNamed(systems, hpc);
  const project = await projectNamed(db, systems, hpc, projectName ?? deps.defaultProject(hpc));
  const membership = await membershipOf(db, actor.userId, project.id);
  const period = await currentPeriod(db, project.id, deps.now());
  const accounts = period && (await findAccounts(db, project.id, period, actor.userId));
  if (membership !== 'active' || !accounts) {
    throw new BursarError('not_a_member', `You are not a member of ${project.name}, so you cannot submit to it.`);
  }
  return { system, project, accounts };
}

/**
 * Takes a job in. After success the job, its zip, its hold and its event are durable, and it will run exactly once;
 * the answer is its public JSON. After a failure or a crash before that nothing is left: no row, no held second,
 * and no file, or one that the next start sweeps away.
 */
export async function submitJob(
  deps: SubmissionDeps,
  actor: Actor,
  destination: Destination,
  request: JobRequest,
  body: Readable,
): Promise<string> {
  const { system, accounts } = destination;
  const timeSeconds = costSeconds(request, request.runtimeHours, system.charge);
  refuseWhatCannotFit(accounts, timeSeconds);

  const upload = await deps.spool.receive(body, { maxBytes: deps.maxBodyBytes });
  try {
    const jobId = newJobId(system, request.tool, deps.newUuid());
    const input = await keepInput(deps, upload, jobId);
    try {
      const json = await recordJob(deps, actor, destination, { jobId, request, input }, timeSeconds);
      deps.wake(system.name);
      return json;
    } catch (error) {
      await deps.spool.remove(jobId);
      throw error;
    }
  } finally {
    await deps.spool.discard(upload);
  }
}

type Input = NewJob['input'];

/** Checks the zip and moves it under the job's name. An empty body is a job without input files. */
async function keepInput(deps: SubmissionDeps, upload: Upload, jobId: string): Promise<Input> {
  if (upload.bytes === 0) return null;
  const { unpackedBytes } = await inspectZip(upload.path, deps.zipLimits);
  await deps.spool.keep(upload, jobId);
  return { sha256: upload.sha256, bytes: upload.bytes, unpackedBytes };
}

/** The one transaction of a submission: job row, hold on the ledger, event. */
async function recordJob(
  deps: SubmissionDeps,
  actor: Actor,
  { system, project, accounts }: Destination,
  job: Pick<NewJob, 'jobId' | 'request' | 'input'>,
  timeSeconds: number,
): Promise<string> {
  const now = deps.now();
  const { userId } = actor;
  const newJob: NewJob = {
    ...job,
    owner: userId,
    project,
    units: unitsOf(job.request, system.charge),
    acceptedAt: now,
  };
  const json = (id: number) => jobJson({ ...newJob, id, status: { state: 'accepted' } }, system.stages);
  return await deps.db.transaction().execute(async (tx) => {
    const id = await insertJob(tx, newJob, json);
    const amounts: Amounts = { timeSeconds, spaceBytes: job.input?.unpackedBytes ?? 0 };
    const note = { actor: userId, reason: `submission of ${job.jobId}`, at: now };
    const reservation = await reserve(tx, { id, attempt: 1 }, accounts, amounts, note);
    if (!reservation.held) throw quotaExceeded(reservation);
    await insertEvent(tx, {
      userId,
      job: id,
      kind: 'job.accepted',
      data: { job_id: job.jobId, stage: system.stages.queued, held_seconds: timeSeconds },
      at: now,
    });
    return json(id);
  });
}

/** Says no before gigabytes are sent for nothing. What counts is the conditional update in the transaction. */
function refuseWhatCannotFit(accounts: AccountSet, timeSeconds: number): void {
  for (const [account, figures] of [['pool', accounts.timePool] as const, ['cap', accounts.timeCap] as const]) {
    const free = available(figures);
    if (free < timeSeconds) {
      throw quotaExceeded({ resource: 'time', account, needed: timeSeconds, available: Math.max(0, free) });
    }
  }
}

interface Shortage {
  resource: 'time' | 'space';
  account: 'pool' | 'cap';
  needed: number;
  available: number;
}

function quotaExceeded({ resource, account, needed, available: free }: Shortage): BursarError {
  const [unit, size] = resource === 'time' ? ['seconds', 1] : ['KB', 1000];
  const whose = account === 'pool' ? "the project's pool" : 'your own quota';
  return new BursarError(
    'quota_exceeded',
    `The job needs ${needed / size} ${unit} of ${resource}, and ${whose} has ${free / size} available. ` +
      'Ask for less, or wait until running jobs have ended.',
    { facts: { resource, account, unit, needed: needed / size, available: free / size } },
  );
}
