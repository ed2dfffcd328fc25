import { BursarError } from '../src/domain/errors.ts';
import type { IdempotentRequest } from '../src/services/idempotency.ts';
import type { Actor } from '../src/services/identity/actor.ts';
import type { Submission as JobSubmission } from '../src/services/jobs/submit-job.ts';
import { type Action, administrator, type Submission } from './plan.ts';
import { sleep } from './virtual-time.ts';

export const titleOf = (id: number) => `job ${id}`;
export const reasonOf = ({ id, kind }: Action) => `${kind} ${id}`;

/** No answer came: the server may have done what was asked, or may still do it. */
export class ConnectionLost extends Error {}

/** Later the user is enabled again, and there is a new period. */
const waitingCodes = new Set(['idempotency_key_in_use', 'user_disabled', 'no_grant']);
export const isTransient = (error: unknown) =>
  !(error instanceof BursarError) || error.transient || waitingCodes.has(error.code);
export const toCode = (error: unknown) =>
  error instanceof BursarError ? error.code : `internal: ${(error as Error).message}`;

export const toActor = (userId: string): Actor => ({
  userId,
  role: 'user',
  address: null,
  tokenId: null,
  sessionId: null,
  requestId: null,
});

export function toKey(action: Action & { user?: string }, suffix = ''): IdempotentRequest {
  const userId = action.kind === 'disable user' ? administrator : (action.user ?? administrator);
  return { userId, key: `${reasonOf(action)} ${suffix}`, content: action.kind };
}

export function toSubmission(action: Action & Submission, zip: Buffer): JobSubmission {
  const payload = {
    title: titleOf(action.id),
    node_number: 1,
    core_number: action.cores,
    runtime: action.runtimeHours,
    command: `run ${action.id}`,
  };
  return {
    userId: action.user,
    scope: { hpc: 'sys', project: action.project },
    headers: { contentDisposition: 'attachment; filename=job.zip', payloads: [JSON.stringify(payload)] },
    body: upload(zip, action.uploadMs),
    declaredBytes: zip.length,
    idempotency: action.hasKey ? { userId: action.user, key: reasonOf(action), content: payload } : null,
    traceParent: null,
  };
}

/** Sends the zip in two parts, with a pause between them. */
async function* upload(zip: Buffer, pauseMs: number): AsyncGenerator<Buffer> {
  if (zip.length > 0) yield zip.subarray(0, zip.length / 2);
  if (pauseMs > 0) await sleep(pauseMs);
  if (zip.length > 0) yield zip.subarray(zip.length / 2);
}
