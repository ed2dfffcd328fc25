import { enrolUser } from '../src/services/identity/enrolment.ts';
import { issueToken } from '../src/services/identity/tokens.ts';
import { withDatabase } from '../test/support/database.ts';
import type { BenchServer } from './bursar.ts';

export interface Reader {
  userId: string;
  token: string;
}

/** Creates further users on a server with SQLite, each with a token. */
export async function createReaders({ data }: BenchServer, count: number): Promise<Reader[]> {
  return await withDatabase(data, async (db) => {
    const readers: Reader[] = [];
    for (let index = 0; index < count; index++) {
      const userId = String(400_000 + index);
      await enrolUser(db, userId, 'user', Date.now());
      const token = await issueToken(db, { userId, name: 'bench', admin: false, expiresAt: null }, Date.now());
      readers.push({ userId, token });
    }
    return readers;
  });
}
