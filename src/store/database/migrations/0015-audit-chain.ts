import { type Kysely, sql } from 'kysely';
import { auditHash, firstAuditHash, type HashedRecord } from '../../identity/audit-hash.ts';
import type { Dialect } from '../dialect.ts';

type Triggers = Pick<Dialect, 'appendOnlyTriggers' | 'dropAppendOnlyTriggers'>;

/**
 * Records of the audit trail say from where the actor came, and are chained by hashes, so that a changed or removed record
 * can be detected. Existing records become the start of the chain.
 */
export const auditChain = ({ appendOnlyTriggers, dropAppendOnlyTriggers }: Triggers) => ({
  async up(db: Kysely<unknown>): Promise<void> {
    const run = async (statements: readonly string[]) => {
      for (const statement of statements) await sql.raw(statement).execute(db);
    };
    await run([
      ...dropAppendOnlyTriggers('audit'),
      'alter table audit add column address text',
      'alter table audit add column token_id bigint',
      'alter table audit add column session_id bigint',
      'alter table audit add column request_id text',
      `alter table audit add column hash text not null default ''`,
    ]);
    let hash = firstAuditHash;
    const { rows } = await sql<HashedRecord & { id: number }>`select * from audit order by id`.execute(db);
    for (const record of rows) {
      hash = auditHash(hash, record);
      await sql`update audit set hash = ${hash} where id = ${record.id}`.execute(db);
    }
    if (rows.length > 0) await sql`insert into facts (name, value) values ('audit_hash', ${hash})`.execute(db);
    await run([
      ...appendOnlyTriggers('audit'),
      'create index audit_by_actor on audit (actor, id)',
      'create index audit_by_act on audit (act, id)',
      'create index audit_by_time on audit (at, id)',
    ]);
  },
});
