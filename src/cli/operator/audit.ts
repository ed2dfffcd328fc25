import { BursarError } from '../../domain/errors.ts';
import { type AuditVerification, verifyAudit } from '../../store/identity/verify-audit.ts';
import type { OperatorContext } from './operator.ts';

export async function verify(
  { withDatabase, print, fail }: OperatorContext,
  { json, contains }: { json: boolean; contains?: string },
): Promise<void> {
  if (contains !== undefined && !/^[0-9a-f]{64}$/.test(contains)) {
    throw new BursarError('invalid_argument', 'Give --contains a hash that "audit verify" has printed earlier.');
  }
  const verification = await withDatabase((db) => verifyAudit(db, contains));
  print(json ? `${JSON.stringify(verification, null, 2)}\n` : formatVerification(verification));
  if (!verification.intact) fail();
}

function formatVerification({ intact, records, lastHash, problems }: AuditVerification): string {
  if (!intact) return `The audit trail was changed:\n${problems.map((problem) => `  ${problem}\n`).join('')}`;
  if (lastHash === null) return 'The audit trail is empty.\n';
  return `The audit trail is intact: ${records} records. Note the hash of the last one elsewhere, and pass it with --contains
later: then not even somebody who can write to the database can change these records unnoticed.
${lastHash}
`;
}
