import { hash } from 'node:crypto';
import type { Selectable } from 'kysely';
import type { Tables } from '../database/tables.ts';

/** The columns of a record that its hash covers. */
export type HashedRecord = Pick<
  Selectable<Tables['audit']>,
  'at' | 'actor' | 'address' | 'tokenId' | 'sessionId' | 'requestId' | 'action' | 'subject' | 'details'
>;

/** The hash before the first record. */
export const firstAuditHash = '';

/**
 * The hash of a record and of the hash before it. A record that is changed, inserted or removed later changes all hashes
 * after it. Never change this function: databases store its results.
 */
export function auditHash(previousHash: string, record: HashedRecord): string {
  const { at, actor, address, tokenId, sessionId, requestId, action, subject, details } = record;
  const content = [previousHash, at, actor, address, tokenId, sessionId, requestId, action, subject, details];
  return hash('sha256', JSON.stringify(content));
}
