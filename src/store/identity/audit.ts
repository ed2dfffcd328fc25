import type { Db, Tx } from '../database/handle.ts';

export interface AuditRecord {
  id: number;
  actor: string;
  act: string;
  /** Whom or what it concerned, such as `hpc_one/proj_hpc_one_01/301330`. */
  subject: string;
  details: Readonly<Record<string, unknown>>;
  at: number;
}

/** Written in the transaction of the act itself. */
export async function insertAudit(tx: Tx, record: Omit<AuditRecord, 'id'>): Promise<number> {
  const { id } = await tx
    .insertInto('audit')
    .values({ ...record, details: JSON.stringify(record.details) })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
}

/** The newest first, before a record number where one is given. */
export async function listAudit(db: Db, most: number, before?: number): Promise<AuditRecord[]> {
  let query = db.selectFrom('audit').selectAll().orderBy('id', 'desc').limit(most);
  if (before !== undefined) query = query.where('id', '<', before);
  return (await query.execute()).map((row) => ({ ...row, details: JSON.parse(row.details) }));
}
