import type { Static } from 'typebox';
import type { AuditSchema } from '../../contract/administration.ts';
import { toIsoTime } from '../../contract/fields.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Db } from '../../store/database/handle.ts';
import { type AuditFilter, type AuditRecord, findAuditPosition, listAudit } from '../../store/identity/audit.ts';
import type { ReadDeps } from '../scope.ts';

type PublicAuditRecord = Static<typeof AuditSchema>;

const batchSize = 1000;

/** Yields records from new to old, at most `limit`, those after the record with the id `before` if it is given. */
export async function* readAuditTrail(
  { db }: Pick<ReadDeps, 'db'>,
  filter: AuditFilter,
  { limit, before }: { limit: number; before?: number | undefined },
): AsyncGenerator<PublicAuditRecord[]> {
  let position = before === undefined ? undefined : await requirePosition(db, before);
  for (let remaining = limit; remaining > 0; ) {
    const size = Math.min(batchSize, remaining);
    const records = await listAudit(db, filter, size, position);
    if (records.length > 0) yield records.map(publicRecord);
    if (records.length < size) return;
    remaining -= size;
    position = records.at(-1);
  }
}

async function requirePosition(db: Db, id: number) {
  const position = await findAuditPosition(db, id);
  if (position !== undefined) return position;
  const fields = [{ field: 'before', message: 'must be the id of a record' }];
  const message = 'The query is not valid: "before" must be the id of the last record of the page before.';
  throw new BursarError('bad_request', message, { fields });
}

function publicRecord({ id, at, actor, action, subject, details, hash }: AuditRecord): PublicAuditRecord {
  return {
    id,
    at: toIsoTime(at),
    actor: actor.userId,
    address: actor.address,
    token_id: actor.tokenId,
    session_id: actor.sessionId,
    request_id: actor.requestId,
    action,
    subject,
    details,
    hash,
  };
}
