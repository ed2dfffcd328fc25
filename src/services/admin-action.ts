import type { Tx } from '../store/database/handle.ts';
import { insertAudit } from '../store/identity/audit.ts';
import { type IdempotentRequest, runOnce } from './idempotency.ts';
import type { Actor } from './identity/actor.ts';
import type { CommonDeps } from './scope.ts';

/** Who asks for a change. With an Idempotency-Key the request is safe to repeat. */
export interface AdminRequest {
  actor: Actor;
  idempotency: IdempotentRequest | null;
}

/** A change by an administrator or manager, as it is recorded in the audit trail. */
export interface AdminAction extends AdminRequest {
  /** Such as `grant.top_up`. */
  name: string;
  subject: string;
  details: Readonly<Record<string, unknown>>;
}

/** Runs an action once. The action, its audit record and the stored response are one transaction: all or none is committed. */
export async function executeAdminAction<T>(
  { db, now }: Pick<CommonDeps, 'db' | 'now'>,
  { actor, idempotency, name, subject, details }: AdminAction,
  execute: (tx: Tx, at: number) => Promise<T>,
): Promise<T> {
  const at = now();
  return await runOnce(db, idempotency, at, async (tx) => {
    const result = await execute(tx, at);
    await insertAudit(tx, { actor, action: name, subject, details, at });
    return result;
  });
}
