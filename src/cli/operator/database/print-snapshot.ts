import type { TakenSnapshot } from '../../../store/maintenance/snapshot.ts';
import { formatVerification } from '../ledger.ts';
import type { CommandOutput } from '../operator.ts';

/** Prints what a snapshot contains and whether it is right. Returns whether it is; if not, the command fails. */
export function printSnapshot(
  { print, fail }: CommandOutput,
  title: string,
  { rows, ledger, audit }: TakenSnapshot,
): boolean {
  print(`${title}: ${rows} rows.\n${formatVerification(ledger)}`);
  if (audit?.intact) print(`The audit trail is intact: ${audit.records} records.\n`);
  for (const problem of audit?.problems ?? []) print(`The audit trail was changed: ${problem}\n`);
  const isRight = ledger.balanced && audit?.intact !== false;
  if (!isRight) fail();
  return isRight;
}
