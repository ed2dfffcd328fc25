import type { TakenSnapshot } from '../../store/maintenance/snapshot.ts';
import { exitCodes } from './exit-codes.ts';
import { formatVerification } from './ledger.ts';

/** Prints what a snapshot contains and whether it is right. Returns whether it is; if not, the command fails. */
export function printSnapshot(title: string, { rows, ledger, audit }: TakenSnapshot): boolean {
  process.stdout.write(`${title}: ${rows} rows.\n${formatVerification(ledger)}`);
  if (audit?.intact) process.stdout.write(`The audit trail is intact: ${audit.records} records.\n`);
  for (const problem of audit?.problems ?? []) process.stdout.write(`The audit trail was changed: ${problem}\n`);
  const isRight = ledger.balanced && audit?.intact !== false;
  if (!isRight) process.exitCode = exitCodes.failure;
  return isRight;
}
