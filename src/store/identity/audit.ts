import { hash as digest } from 'node:crypto';
import { sql } from 'kysely';
import type { Db, Tx } from '../database/handle.ts';
import type { Row } from '../database/tables.ts';

/** The user or program that acted, and how it reached the service. */
export interface AuditActor {
  userId: string;
  /** The IP address. Null on the command line. */
  address: string | null;
  /** The id of the token of Bursar that was used; null for a session or a token of an OpenID provider. */
  tokenId: number | null;
  sessionId: number | null;
  requestId: string | null;
}

export interface NewAuditRecord {
  actor: AuditActor;
  action: string;
  /** The object of the action, such as `hpc_one/proj_hpc_one_01/301330`. */
  subject: string;
  details: Readonly<Record<string, unknown>>;
  at: number;
}

export interface AuditRecord extends NewAuditRecord {
  id: number;
  /** Covers the record and the hash of the record before it. */
  hash: string;
}

/**
 * Call it in the transaction of the action itself, after all other statements: until the commit, no other transaction can
 * add a record.
 */
export async function insertAudit(tx: Tx, record: NewAuditRecord): Promise<void> {
  await insertAudits(tx, [record]);
}

/** Like `insertAudit`, for several records. */
export async function insertAudits(tx: Tx, records: readonly NewAuditRecord[]): Promise<void> {
  let hash = await lockLastHash(tx);
  for (const record of records) {
    const row = toRow(record);
    hash = auditHash(hash, row);
    await tx
      .insertInto('audit')
      .values({ ...row, hash })
      .execute();
  }
  await tx.updateTable('settings').set({ value: hash }).where('name', '=', lastHashName).execute();
}

function toRow({ actor, action, subject, details, at }: NewAuditRecord): HashedRecord {
  const { userId, address, tokenId, sessionId, requestId } = actor;
  const access = { address, tokenId, sessionId, requestId };
  return { actor: userId, ...access, action, subject, details: JSON.stringify(details), at };
}

/** The columns of a record that its hash covers. */
type HashedRecord = Omit<Row<'audit'>, 'id' | 'hash'>;

/** The hash before the first record. */
export const firstAuditHash = '';

/**
 * The hash of a record and of the hash before it. A record that is changed, inserted or removed later changes all hashes
 * after it. Never change this function: databases store its results.
 */
export function auditHash(previousHash: string, record: HashedRecord): string {
  const { at, actor, address, tokenId, sessionId, requestId, action, subject, details } = record;
  const content = [previousHash, at, actor, address, tokenId, sessionId, requestId, action, subject, details];
  return digest('sha256', JSON.stringify(content));
}

/** The name of the setting that has the hash of the last record. */
export const lastHashName = 'audit_hash';

/** Reads the hash of the last record, and locks it until the transaction ends. */
async function lockLastHash(tx: Tx): Promise<string> {
  const { value } = await tx
    .insertInto('settings')
    .values({ name: lastHashName, value: firstAuditHash })
    .onConflict((conflict) => conflict.column('name').doUpdateSet((eb) => ({ value: eb.ref('settings.value') })))
    .returning('value')
    .executeTakeFirstOrThrow();
  return value;
}

/** Which records to list. `action` and `subject` also select what is below them: `grant` selects `grant.top_up`. */
export interface AuditFilter {
  actor?: string | undefined;
  action?: string | undefined;
  subject?: string | undefined;
  address?: string | undefined;
  requestId?: string | undefined;
  /** Epoch milliseconds; `to` is exclusive. */
  from?: number | undefined;
  to?: number | undefined;
}

/** Undefined if there is no such record. */
export async function findAuditPosition(db: Db, id: number): Promise<AuditPosition | undefined> {
  return await db.selectFrom('audit').select(['at', 'id']).where('id', '=', id).executeTakeFirst();
}

/** The place of a record in the list. Not its id alone: refused requests are recorded up to a minute late. */
export type AuditPosition = Pick<AuditRecord, 'at' | 'id'>;

/** Lists records from new to old, those before a position if it is given. */
export async function listAudit(
  db: Db,
  filter: AuditFilter,
  limit: number,
  before?: AuditPosition,
): Promise<AuditRecord[]> {
  const { actor, action, subject, address, requestId, from, to } = filter;
  let query = db.selectFrom('audit').selectAll().orderBy('at', 'desc').orderBy('id', 'desc').limit(limit);
  if (before !== undefined)
    query = query.where((eb) => eb(eb.refTuple('at', 'id'), '<', eb.tuple(before.at, before.id)));
  if (actor !== undefined) query = query.where('actor', '=', actor);
  if (action !== undefined)
    query = query.where((eb) => eb.or([eb('action', '=', action), startsWith('action', `${action}.`)]));
  if (subject !== undefined) {
    query = query.where((eb) => eb.or([eb('subject', '=', subject), startsWith('subject', `${subject}/`)]));
  }
  if (address !== undefined) query = query.where('address', '=', address);
  if (requestId !== undefined) query = query.where('requestId', '=', requestId);
  if (from !== undefined) query = query.where('at', '>=', from);
  if (to !== undefined) query = query.where('at', '<', to);
  return (await query.execute()).map(toRecord);
}

/** The length is that of the database, which may count other characters than JavaScript. */
const startsWith = (column: 'action' | 'subject', start: string) =>
  sql<boolean>`substr(${sql.ref(column)}, 1, length(cast(${start} as text))) = ${start}`;

function toRecord(row: Row<'audit'>): AuditRecord {
  const { actor: userId, address, tokenId, sessionId, requestId, details, ...record } = row;
  return { ...record, actor: { userId, address, tokenId, sessionId, requestId }, details: JSON.parse(details) };
}
