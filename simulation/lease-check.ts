import Sqlite from 'better-sqlite3';
import type { Change } from './server.ts';
import { databaseTime, type SimulatedProcess, tasks } from './virtual-time.ts';

const systemLease = 'system sys';
/** The leases under which background work writes into a table. Any, into the others. */
const leasesOf: Record<string, string[]> = {
  jobs: [systemLease, 'expiry'],
  holds: [systemLease],
  resolutions: [systemLease],
  periods: ['expiry'],
};

/**
 * Returns a check that background work changes jobs and accounts only while its server holds a lease for it. A transaction that
 * began with the lease may end after it has expired, as long as no other server has acquired it.
 */
export function createLeaseCheck(file: string, problems: string[]) {
  // Without Kysely, because it is called often.
  const database = new Sqlite(file, { readonly: true });
  const leases = database.prepare<[string], { name: string; expires_at: number }>(
    'select name, expires_at from leases where holder = ?',
  );
  return {
    check(process: SimulatedProcess, change: Change) {
      const held = tasks.run(undefined, () => leases.all(process.name));
      const isAllowed = held.some(({ name, expires_at }) => {
        if ('method' in change) return name === systemLease && expires_at > databaseTime();
        return leasesOf[change.table]?.includes(name) ?? true;
      });
      if (!isAllowed) problems.push(`${process.name} writes without its lease: ${JSON.stringify(change)}`);
    },
    close: () => database.close(),
  };
}
