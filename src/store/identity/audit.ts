import type { Db, Tx } from '../database/handle.ts';

export interface AuditRecord {
  id: number;
  actor: string;
  act: string;
  /** The object of the act, such as `hpc_one/proj_hpc_one_01/301330`. */
  subject: string;
  details: Readonly<Record<string, unknown>>;
  at: number;
}

/** Call it in the transaction of the act itself. */
export async function insertAudit(tx: Tx, record: Omit<AuditRecord, 'id'>): Promise<number> {
  const { id } = await tx
    .insertInto('audit')
    .values({ ...record, details: JSON.stringify(record.details) })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
}

/** Lists records from new to old, starting before the id `before` if it is given. */
export async function listAudit(db: Db, limit: number, before?: number): Promise<AuditRecord[]> {
  let query = db.selectFrom('audit').selectAll().orderBy('id', 'desc').limit(limit);
  if (before !== undefined) query = query.where('id', '<', before);
  return (await query.execute()).map((row) => ({ ...row, details: JSON.parse(row.details) }));
}
