import type { Tx } from '../database/handle.ts';

const tables = ['sessions', 'signInCodes', 'signInAttempts', 'deviceRequests'] as const;

/** Deletes sessions and unfinished sign-ins that ended before this time. */
export async function deleteExpiredSignIns(tx: Tx, before: number): Promise<void> {
  for (const table of tables) await tx.deleteFrom(table).where('expiresAt', '<', before).execute();
}
