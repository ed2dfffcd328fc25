import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { publicJob, toJobReference } from '../../contract/job.ts';
import {
  requirePayloadText,
  requireZipAttachment,
  type SubmissionHeaders,
  toComparablePayload,
} from '../../contract/submission.ts';
import { countRequestedUnits, maxAffordableRuntimeHours } from '../../domain/accounting/charge.ts';
import { quotaExceeded, type Shortfall } from '../../domain/accounting/shortfall.ts';
import { BursarError } from '../../domain/errors.ts';
import type { JobRequest } from '../../domain/jobs/job.ts';
import { parsePayload } from '../../domain/jobs/payload.ts';
import { formatJobId } from '../../domain/systems/system.ts';
import { type Spool, tooLarge, type Upload, type UploadBody } from '../../files/spool/spool.ts';
import { inTransaction } from '../../store/database/transaction.ts';
import type { KeyRecord } from '../../store/jobs/idempotency-keys.ts';
import { findJobJson } from '../../store/jobs/job-lists.ts';
import { insertJob, lockJobsVersion, type NewJob } from '../../store/jobs/jobs.ts';
import type { Amounts } from '../../store/ledger/accounts.ts';
import { placeHold } from '../../store/ledger/ledger.ts';
import { claimKey, extensionMs, type IdempotentRequest, type KeyClaim, keyReused } from '../idempotency.ts';
import type { PathScope } from '../scope.ts';
import type { ServiceDeps, UnfinishedJobs } from '../service-deps.ts';
import {
  findJobLimitError,
  quoteFor,
  requireStillEligible,
  requireSubmissionTarget,
  type SubmissionTarget,
  type SubmissionTargetDeps,
} from './submission-target.ts';

type SubmissionDeps = SubmissionTargetDeps &
  Pick<ServiceDeps, 'spool' | 'checkInput' | 'maxBodyBytes' | 'abandonedClaims' | 'userTopic' | 'wakeDispatcher'>;

export interface Submission {
  userId: string;
  /** The system, and the project unless it is the default one. */
  scope: PathScope;
  headers: SubmissionHeaders;
  body: UploadBody;
  /** The size of the zip by the headers; null if they do not contain it. */
  declaredBytes: number | null;
  idempotency: IdempotentRequest | null;
  /** The span of the request, as a W3C `traceparent`; null without tracing. */
  traceParent: string | null;
}

/**
 * Accepts a job and returns its public JSON. After success the job, its zip, its hold and its event are durable, and the
 * job will run exactly once. After an error or a crash nothing is left but, at most, a file that the next start removes.
 * One case is undecided: a database connection that is lost during the commit, and stays lost. Its error says so.
 *
 * With an Idempotency-Key, the key is claimed before the body is read, and the response is stored in the transaction
 * that inserts the job. So there is one job for each key, however often the request is repeated and whatever is killed.
 */
export async function submitJob(deps: SubmissionDeps, submission: Submission): Promise<string> {
  const { headers, body, idempotency } = submission;
  if (idempotency === null) return await acceptJob(deps, submission, null);
  // The body is compared by its hash.
  const request = { ...idempotency, content: [idempotency.content, toComparablePayload(headers)] };
  const result = await claimKey(deps.db, request, deps.abandonedClaims, deps.now);
  if ('earlier' in result) {
    await requireSameBody(deps, result.earlier, body);
    return result.earlier.response;
  }
  const { claim } = result;
  const timer = setInterval(claim.extend, extensionMs);
  try {
    return await acceptJob(deps, submission, claim);
  } catch (error) {
    await claim.release();
    throw error;
  } finally {
    clearInterval(timer);
  }
}

async function requireSameBody({ spool, maxBodyBytes }: SubmissionDeps, earlier: KeyRecord, body: UploadBody) {
  const upload = await spool.receive(body, { maxBytes: maxBodyBytes });
  await spool.discard(upload);
  if (upload.sha256 !== earlier.bodySha256) throw keyReused();
}

/** Everything that the headers can decide is decided before the body is read. */
async function acceptJob(deps: SubmissionDeps, submission: Submission, claim: KeyClaim | null): Promise<string> {
  const { userId, scope, headers, body, declaredBytes, traceParent } = submission;
  const target = await requireSubmissionTarget(deps, userId, scope);
  requireZipAttachment(headers);
  const request = parsePayload(requirePayloadText(headers), target.system);
  const { refusal, timeSeconds } = quoteFor(target, request);
  // Saves the upload. The conditional update in the transaction is what enforces the quota.
  if (refusal !== null) throw refusal;
  requireWithinJobLimits(target, toNextCounts(target.accounts));

  const maxBytes = deps.maxBodyBytes;
  if (declaredBytes !== null && declaredBytes > maxBytes) throw tooLarge({ maxBytes });
  const upload = await deps.spool.receive(body, { maxBytes });
  const { system } = target;
  try {
    // An empty body is a job without input files.
    const zip = upload.bytes === 0 ? null : upload.content;
    const findScriptError = (text: string, hasMore: boolean) =>
      system.commandLanguage.findDirectiveError(text, request, hasMore);
    const isScript = request.command.kind === 'script';
    const { unpackedBytes, startFolder } = await deps.checkInput(request, zip, isScript ? findScriptError : null);
    const jobId = formatJobId(system, request.tool, randomUUID());
    try {
      const input = zip && (await storeInput(deps.spool, upload, unpackedBytes, jobId));
      const newJob: NewJob = {
        jobId,
        owner: userId,
        project: target.project,
        request: startFolder === '' ? request : { ...request, startFolder },
        units: countRequestedUnits(request, system.charge),
        input,
        traceParent,
        acceptedAt: deps.now(),
      };
      return await storeJob(deps, target, newJob, timeSeconds, upload.sha256, claim);
    } catch (error) {
      const json = await findAfterError(deps, userId, jobId, error);
      if (json !== undefined) return json;
      // The error of the submission is the one to report. The cleanup removes a zip that remains.
      await deps.spool.remove(jobId).catch(() => undefined);
      throw error;
    } finally {
      // Even after an error the job may be stored.
      deps.wakeDispatcher(system.name);
      deps.userTopic.publish(userId);
    }
  } finally {
    await deps.spool.discard(upload);
  }
}

/** Moves the zip to the name of the job, if it is a file. */
async function storeInput(
  spool: Spool,
  { content, bytes, sha256 }: Upload,
  unpackedBytes: number,
  jobId: string,
): Promise<NewJob['input']> {
  if (content.kind === 'file') await spool.storeForJob(content.path, jobId);
  return { bytes, sha256, unpackedBytes, content: content.kind === 'memory' ? content.bytes : null };
}

/** The one transaction of a submission: job row, small zip, event, hold on the ledger, and stored response. */
async function storeJob(
  deps: SubmissionDeps,
  target: SubmissionTarget,
  job: NewJob,
  timeSeconds: number,
  bodySha256: string,
  claim: KeyClaim | null,
): Promise<string> {
  const { system } = target;
  const toPublicJob = (id: number) => publicJob({ ...job, id, status: { state: 'accepted' } }, system.stages);
  const eventData = { ...toJobReference(job), stage: system.stages.queued, held_seconds: timeSeconds };
  const amounts: Amounts = { timeSeconds, spaceBytes: job.input?.unpackedBytes ?? 0 };
  const note = { actor: job.owner, reason: `submission of ${job.jobId}`, at: job.acceptedAt };
  return await inTransaction(deps.db, async (tx) => {
    // During the upload the user may have been banned, the project closed, or a period ended.
    const current = await requireStillEligible(tx, job.owner, target, job.acceptedAt);
    const { id, json, unfinishedJobs } = await insertJob(tx, job, toPublicJob, eventData);
    const { shortfall, projectJobs } = await placeHold(tx, { id }, current.accounts, amounts, note);
    if (shortfall !== null) {
      throw quotaExceeded(shortfall, maxRuntimeNow(current, job.request, shortfall), system.charge);
    }
    // Both counters are in rows that this transaction has locked, so concurrent submissions cannot exceed the limits.
    requireWithinJobLimits(current, { user: unfinishedJobs, project: projectJobs });
    await claim?.complete(tx, json, bodySha256);
    return json;
  });
}

/** The counts that a new job would have at least: jobs of the user in other projects are known in the transaction only. */
function toNextCounts({ spaceCap, spacePool }: SubmissionTarget['accounts']): UnfinishedJobs {
  return { user: spaceCap.openHolds + 1, project: spacePool.openHolds + 1 };
}

function requireWithinJobLimits(target: SubmissionTarget, counts: UnfinishedJobs): void {
  const error = findJobLimitError(target, counts);
  if (error !== null) throw error;
}

/** Uses the balance that the transaction found, which may be lower than the quoted one. */
function maxRuntimeNow(target: SubmissionTarget, request: JobRequest, shortfall: Shortfall): number {
  if (shortfall.resource === 'space') return quoteFor(target, request).maxRuntimeHours;
  const { charge, limits } = target.system;
  return maxAffordableRuntimeHours(request, charge, shortfall.available, limits.runtimeHours);
}

const maxLookups = 10;
const lookupDelayMs = 500;

/**
 * Finds out whether a job was stored although its transaction reported an error. Returns its public JSON, or undefined
 * if it is certain that the job does not and will not exist, not even after a crash: the lookup commits, and SQLite then
 * overwrites what a failed commit left in its file. Throws if that stays unknown; then the zip must be kept.
 */
async function findAfterError(
  { db }: SubmissionDeps,
  owner: string,
  jobId: string,
  error: unknown,
): Promise<string | undefined> {
  // After every other BursarError the transaction is certainly not committed.
  if (error instanceof BursarError && error.code !== 'database_unavailable') return undefined;
  for (let lookup = 1; lookup <= maxLookups; lookup++) {
    try {
      return await inTransaction(db, async (tx) => {
        // The failed transaction locked the owner's row. Once this one has the lock, the other one has ended.
        await lockJobsVersion(tx, owner, { increment: false });
        return await findJobJson(tx, {}, jobId);
      });
    } catch {
      await sleep(lookupDelayMs);
    }
  }
  const message =
    'The database connection was lost while the job was being stored, so it is unknown whether the job exists. ' +
    'Check the list of your jobs before you send it again, or send it again with its Idempotency-Key.';
  throw new BursarError('database_unavailable', message, { cause: error, transient: true });
}
