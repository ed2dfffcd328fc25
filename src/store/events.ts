import type { Db } from './tables.ts';

export interface NewEvent {
  userId: string;
  job: number | null;
  kind: string;
  data: Readonly<Record<string, unknown>>;
  at: number;
}

/** Events are written in the transaction of what they tell of, so that neither exists without the other. */
export async function insertEvent(db: Db, event: NewEvent): Promise<void> {
  const { userId, job, kind, data, at } = event;
  await db
    .insertInto('events')
    .values({ user_id: userId, job, kind, data: JSON.stringify(data), at })
    .execute();
}
