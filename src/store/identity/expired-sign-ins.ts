import type { Tx } from '../database/handle.ts';

const tables = ['sessions', 'sign_in_codes', 'sign_in_attempts', 'device_requests'] as const;

/** Deletes sessions and unfinished sign-ins that ended before this time. */
export async function deleteExpiredSignIns(tx: Tx, before: number): Promise<void> {
  for (const table of tables) await tx.deleteFrom(table).where('expires_at', '<', before).execute();
}
