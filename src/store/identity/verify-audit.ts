import type { Db } from '../database/handle.ts';
import { auditHash, firstAuditHash, lastHashName } from './audit.ts';

export interface AuditVerification {
  /** Whether no record was changed, inserted or removed. */
  intact: boolean;
  records: number;
  /** The hash of the last record. Null if there is none. */
  lastHash: string | null;
  problems: string[];
}

const batchSize = 1000;
const maxProblems = 20;

/**
 * Computes all hashes again. `knownHash` is one that was noted earlier: somebody who can write to the database can compute
 * a new chain, but not one that contains that hash.
 */
export async function verifyAudit(db: Db, knownHash?: string): Promise<AuditVerification> {
  // Read first: records may be added meanwhile.
  const storedHash = await readLastHash(db);
  const missing = new Set([storedHash, knownHash ?? firstAuditHash]);
  const problems: string[] = [];
  let lastHash = firstAuditHash;
  let records = 0;
  missing.delete(firstAuditHash);
  for (let lastId = 0; ; ) {
    const query = db.selectFrom('audit').selectAll().where('id', '>', lastId).orderBy('id').limit(batchSize);
    const rows = await query.execute();
    for (const row of rows) {
      if (row.hash !== auditHash(lastHash, row) && problems.length < maxProblems)
        problems.push(`record ${row.id} was changed, or records before it were changed, inserted or removed`);
      missing.delete(row.hash);
      lastHash = row.hash;
      lastId = row.id;
    }
    records += rows.length;
    if (rows.length < batchSize) break;
  }
  if (storedHash !== knownHash && missing.has(storedHash)) problems.push('the last records were changed or removed');
  if (knownHash !== undefined && missing.has(knownHash)) problems.push(`no record has the hash ${knownHash}`);
  return { intact: problems.length === 0, records, lastHash: lastHash === firstAuditHash ? null : lastHash, problems };
}

/** The hash of the last record, as the database stores it beside the records. */
async function readLastHash(db: Db): Promise<string> {
  const row = await db.selectFrom('settings').select('value').where('name', '=', lastHashName).executeTakeFirst();
  return row?.value ?? firstAuditHash;
}
