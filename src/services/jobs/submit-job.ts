import { toJobReference } from '../../contract/event.ts';
import { publicJob } from '../../contract/job.ts';
import { maxAffordableRuntimeHours, requestedUnits } from '../../domain/accounting/price.ts';
import { quotaExceeded, type Shortfall } from '../../domain/accounting/shortfall.ts';
import { BursarError } from '../../domain/errors.ts';
import { validateSbatchDirectives } from '../../domain/jobs/batch-command.ts';
import type { JobRequest } from '../../domain/jobs/job.ts';
import { createJobId, type HpcSystem } from '../../domain/systems/system.ts';
import type { Spool, Upload, UploadBody } from '../../files/spool/spool.ts';
import { inspectZipAndReadStart } from '../../files/zip/unzip.ts';
import { inspectZip, type ZipLimits } from '../../files/zip/zip-directory.ts';
import type { ZipSource } from '../../files/zip/zip-source.ts';
import type { Db, Tx } from '../../store/database/handle.ts';
import { inTransaction } from '../../store/database/transaction.ts';
import { insertJob, type NewJob } from '../../store/jobs/jobs.ts';
import type { Amounts } from '../../store/ledger/accounts.ts';
import { reserve } from '../../store/ledger/ledger.ts';
import { quoteFor } from '../accounting/quote.ts';
import type { KeyClaim } from '../idempotency.ts';
import type { Actor } from '../identity/actor.ts';
import { checkMember, type Destination } from './destination.ts';
import { storedAfterAll } from './stored-after-all.ts';

export interface SubmissionDeps {
  db: Db;
  spool: Spool;
  zipLimits: ZipLimits;
  maxBodyBytes: number;
  now(): number;
  newUuid(): string;
  /** Called once a job of the system is durable, so that the dispatcher need not wait. */
  wake(hpc: string): void;
}

/**
 * Takes a job in. After success the job, its zip, its hold and its event are durable, and it will run exactly once;
 * the answer is its public JSON. After a failure or a crash before that nothing is left: no row, no held second,
 * and no file, or one that the next start sweeps away. Only a database that goes away at the very moment of the commit,
 * and stays away, leaves it open which of the two it is; the caller is told so.
 */
export async function submitJob(
  deps: SubmissionDeps,
  actor: Actor,
  destination: Destination,
  request: JobRequest,
  body: UploadBody,
  claim: KeyClaim | null,
): Promise<string> {
  const { system } = destination;
  const quote = quoteFor(destination, request);
  // Says no before gigabytes are sent for nothing. What counts is the conditional update in the transaction.
  if (quote.lack !== null) throw quotaExceeded(quote.lack, quote.longestRuntime);
  const { timeSeconds } = quote;

  const upload = await deps.spool.receive(body, {
    maxBytes: deps.maxBodyBytes,
    onProgress: () => claim?.keep(),
  });
  try {
    const jobId = createJobId(system, request.tool, deps.newUuid());
    const input = await keepInput(deps, system, request, upload, jobId);
    try {
      const answer = (tx: Tx, json: string) => claim?.answer(tx, json, upload.sha256);
      const json = await recordJob(deps, actor, destination, { jobId, request, input }, timeSeconds, answer);
      deps.wake(system.name);
      return json;
    } catch (error) {
      // Also when nobody can tell: the job may be there.
      const wake = () => deps.wake(system.name);
      const json = await storedAfterAll(deps.db, jobId, destination.accounts, error).finally(wake);
      if (json !== undefined) return json;
      await deps.spool.remove(jobId);
      throw error;
    }
  } finally {
    await deps.spool.discard(upload);
  }
}

type Input = NewJob['input'];

/** Checks the zip. One that is a file is moved under the job's name. An empty body is a job without input files. */
async function keepInput(
  deps: SubmissionDeps,
  system: HpcSystem,
  request: JobRequest,
  upload: Upload,
  jobId: string,
): Promise<Input> {
  if (upload.bytes === 0) return null;
  const { content, ...facts } = upload;
  const unpackedBytes = await checkInput(deps, system, request, content);
  if (content.kind === 'file') await deps.spool.storeForJob(content.path, jobId);
  return { ...facts, unpackedBytes, content: content.kind === 'memory' ? content.bytes : null };
}

const scriptStartBytes = 65_536;

/**
 * How much the zip unpacks to, if it is acceptable. On Slurm, what a script says in its `#SBATCH` lines is held to the same
 * list as the command line.
 */
async function checkInput(
  { zipLimits }: SubmissionDeps,
  system: HpcSystem,
  { command }: JobRequest,
  content: ZipSource,
): Promise<number> {
  if (system.scheduler !== 'slurm' || command.kind !== 'script') {
    return (await inspectZip(content, zipLimits)).unpackedBytes;
  }
  const name = command.script.replace(/^(\.\/)+/, '');
  const { unpackedBytes, fileStart } = await inspectZipAndReadStart(content, name, scriptStartBytes, zipLimits);
  const problem = fileStart && validateSbatchDirectives(fileStart.toString('utf8'));
  if (!problem) return unpackedBytes;
  const fields = [{ field: 'command', message: `${name}: ${problem}` }];
  throw new BursarError('invalid_payload', `The script ${name} is not valid: ${problem}.`, { fields });
}

/** The one transaction of a submission: job row, hold on the ledger, event, and the answer for repetitions. */
async function recordJob(
  deps: SubmissionDeps,
  actor: Actor,
  destination: Destination,
  job: Pick<NewJob, 'jobId' | 'request' | 'input'>,
  timeSeconds: number,
  answer: (tx: Tx, json: string) => Promise<void> | undefined,
): Promise<string> {
  const now = deps.now();
  const { userId } = actor;
  const { system, project, accounts } = destination;
  const newJob: NewJob = {
    ...job,
    owner: userId,
    project,
    units: requestedUnits(job.request, system.charge),
    acceptedAt: now,
  };
  const shown = (id: number) => publicJob({ ...newJob, id, status: { state: 'accepted' } }, system.stages);
  return await inTransaction(deps.db, async (tx) => {
    // Somebody may have been banned, or the project closed, while the zip was on its way.
    await checkMember(tx, actor, project);
    const told = { ...toJobReference(newJob), stage: system.stages.queued, held_seconds: timeSeconds };
    const { id, json } = await insertJob(tx, newJob, shown, told);
    const amounts: Amounts = { timeSeconds, spaceBytes: job.input?.unpackedBytes ?? 0 };
    const note = { actor: userId, reason: `submission of ${job.jobId}`, at: now };
    const lack = await reserve(tx, { id, attempt: 1 }, accounts, amounts, note);
    if (lack !== null) throw quotaExceeded(lack, longestRuntime(destination, job.request, lack));
    await answer(tx, json);
    return json;
  });
}

/** By what there is now, which may be less than when the job was quoted. */
function longestRuntime(destination: Destination, request: JobRequest, lack: Shortfall): number {
  if (lack.resource === 'space') return quoteFor(destination, request).longestRuntime;
  const { charge, limits } = destination.system;
  return maxAffordableRuntimeHours(request, charge, lack.available, limits.runtimeHours);
}
