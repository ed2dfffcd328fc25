import type { Db } from './tables.ts';

export interface NewEvent {
  userId: string;
  job: number | null;
  kind: string;
  data: Readonly<Record<string, unknown>>;
  at: number;
}

/** Events are written in the transaction of what they tell of, so that neither exists without the other. */
export async function insertEvent(db: Db, { userId, ...event }: NewEvent): Promise<void> {
  await insertEvents(db, [userId], event);
}

/** The same event for several users. */
export async function insertEvents(db: Db, userIds: readonly string[], event: Omit<NewEvent, 'userId'>): Promise<void> {
  const { job, kind, data, at } = event;
  const text = JSON.stringify(data);
  // A statement binds a limited number of values; a project can have more members than that.
  for (let first = 0; first < userIds.length; first += 1000) {
    const rows = userIds.slice(first, first + 1000).map((user_id) => ({ user_id, job, kind, data: text, at }));
    await db.insertInto('events').values(rows).execute();
  }
}
