import { sql } from 'kysely';
import type { Db, Tx } from '../database/handle.ts';
import { inTransaction } from '../database/transaction.ts';

/** The secrets of a webhook as they are stored. */
export interface StoredSecrets {
  id: number;
  secret: string;
  formerSecret: string | null;
}

const batchSize = 200;

/** Names the place of the secrets of a webhook, for their encryption. */
export const secretPlace = (webhookId: number): string => `webhooks/${webhookId}`;

export async function findStoredSecrets(db: Db, webhookId: number): Promise<StoredSecrets | undefined> {
  return await selectSecrets(db).where('id', '=', webhookId).executeTakeFirst();
}

/** Reads the secrets of all webhooks, in batches. */
export async function* readStoredSecrets(db: Db): AsyncIterable<StoredSecrets> {
  for (let lastId = 0; ; ) {
    const rows = await selectSecrets(db).where('id', '>', lastId).orderBy('id').limit(batchSize).execute();
    yield* rows;
    if (rows.length < batchSize) return;
    lastId = rows.at(-1)?.id ?? lastId;
  }
}

const selectSecrets = (db: Db) => db.selectFrom('webhooks').select(['id', 'secret', 'former_secret as formerSecret']);

/**
 * Converts the stored secrets of all webhooks. Returns how many rows have changed. Each batch is a transaction: after a crash
 * the rest is as it was, and a repetition continues there, if `convert` returns what it has converted already.
 */
export async function convertStoredSecrets(
  db: Db,
  convert: (stored: string, webhookId: number) => string,
): Promise<number> {
  let changed = 0;
  for (let lastId: number | undefined = 0; lastId !== undefined; ) {
    const after: number = lastId;
    const batch = await inTransaction(db, (tx) => convertBatch(tx, after, convert));
    changed += batch.changed;
    lastId = batch.lastId;
  }
  return changed;
}

async function convertBatch(tx: Tx, after: number, convert: (stored: string, webhookId: number) => string) {
  const query = selectSecrets(tx).where('id', '>', after).orderBy('id').limit(batchSize);
  // An owner may be replacing a secret.
  const rows = await (tx.backend.dialect.locksRows ? query.forNoKeyUpdate() : query).execute();
  let changed = 0;
  for (const { id, ...stored } of rows) {
    const secret = convert(stored.secret, id);
    const formerSecret = stored.formerSecret === null ? null : convert(stored.formerSecret, id);
    if (secret === stored.secret && formerSecret === stored.formerSecret) continue;
    await tx.updateTable('webhooks').set({ secret, former_secret: formerSecret }).where('id', '=', id).execute();
    changed += 1;
  }
  return { changed, lastId: rows.length < batchSize ? undefined : rows.at(-1)?.id };
}

/**
 * SQLite leaves what it has overwritten in unused parts of the file and in its log until they are used again. This writes both
 * anew, so that no earlier secret stays there. PostgreSQL does so by itself, in time.
 */
export async function eraseOverwrittenRows(db: Db): Promise<void> {
  if (db.backend.dialect.name !== 'sqlite') return;
  await sql`vacuum`.execute(db);
  await sql`pragma wal_checkpoint(truncate)`.execute(db);
}
