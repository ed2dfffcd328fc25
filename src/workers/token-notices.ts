import { toIsoTime } from '../contract/fields.ts';
import { msPerDay } from '../domain/units.ts';
import type { Db } from '../store/database/handle.ts';
import { insertEvent } from '../store/events/events.ts';
import { listTokensToNotify, markTokenNotified } from '../store/identity/tokens.ts';
import type { HeldLease } from './hold-lease.ts';

export interface TokenNoticeDeps {
  lease: Pick<HeldLease, 'transaction'>;
  /** For reading only. Writes go through `HeldLease.transaction`. */
  db: Db;
  /** Owners are notified this many days before the end of a token. */
  noticeDays: number;
  /** Called after a commit that concerns a user. */
  publish(userId: string): void;
  now(): number;
}

/** Notifies the owners of tokens that expire soon, once a token: it is marked in the transaction that writes the event. */
export async function notifyTokenOwners({ lease, db, noticeDays, publish, now }: TokenNoticeDeps): Promise<void> {
  const at = now();
  for (const { id, userId, name, expiresAt } of await listTokensToNotify(db, at, noticeDays * msPerDay)) {
    await lease.transaction(async (tx) => {
      if (!(await markTokenNotified(tx, id, at))) return;
      const data = { token_id: id, token_name: name, expires_at: toIsoTime(expiresAt) };
      await insertEvent(tx, { userId, job: null, kind: 'token.expiring', data, at });
    });
    publish(userId);
  }
}
