import type { UploadBody } from '../../files/spool/spool.ts';
import type { KeyRecord } from '../../store/jobs/idempotency-keys.ts';
import { claimKey, type IdempotentRequest, type KeyClaim, keyReused } from '../idempotency.ts';
import type { SubmissionDeps } from './submit-job.ts';

/**
 * Submits once for each key. The key is claimed before anything of the body is read, and answered in the transaction
 * that makes the job: however often and wherever it is repeated, and whatever is killed, there is one job a key.
 */
export async function submitOnce(
  deps: SubmissionDeps,
  request: IdempotentRequest | null,
  body: UploadBody,
  submit: (claim: KeyClaim | null) => Promise<string>,
): Promise<string> {
  if (request === null) return await submit(null);
  const taken = await claimKey(deps.db, request, deps.now);
  if ('earlier' in taken) {
    await checkSameBody(deps, taken.earlier, body);
    return taken.earlier.response;
  }
  try {
    return await submit(taken.claim);
  } catch (error) {
    // Where the database is away the claim runs out by itself; the first trouble is the one to tell of.
    await taken.claim.free().catch(() => undefined);
    throw error;
  }
}

async function checkSameBody(
  { spool, maxBodyBytes }: SubmissionDeps,
  { bodySha256 }: KeyRecord,
  body: UploadBody,
): Promise<void> {
  const upload = await spool.receive(body, { maxBytes: maxBodyBytes });
  await spool.discard(upload);
  if (upload.sha256 !== bodySha256) throw keyReused();
}
