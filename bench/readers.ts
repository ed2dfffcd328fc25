import { userScopes } from '../src/domain/identity/policy.ts';
import { createSlots } from '../src/domain/slots.ts';
import { enrolUser } from '../src/services/identity/enrolment.ts';
import { withDatabase } from '../test/support/database.ts';
import { storeToken } from '../test/support/tokens.ts';
import type { BenchServer } from './bursar.ts';

export interface Reader {
  userId: string;
  token: string;
}

/** Creates further users on a server with SQLite, each with a token. */
export async function createReaders({ data }: BenchServer, count: number): Promise<Reader[]> {
  return await withDatabase(data, async (db) => {
    const create = async (userId: string): Promise<Reader> => {
      await enrolUser(db, userId, 'user', Date.now());
      const newToken = { userId, name: 'bench', scopes: userScopes, expiresAt: null };
      const { token } = await storeToken(db, newToken, Date.now());
      return { userId, token };
    };
    // Transactions that run at the same time share a commit.
    const slots = createSlots({ total: 50 });
    const userIds = Array.from({ length: count }, (_, index) => String(400_000 + index));
    return await Promise.all(userIds.map((userId) => slots.run(() => create(userId))));
  });
}
