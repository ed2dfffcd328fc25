import type { Bursar } from '#client';
import type { Context } from '../context.ts';

/** The number of the newest event. Later ones belong to what happens from now on. */
export async function latestEvent({ signal }: Context, client: Bursar): Promise<number> {
  return (await client.api.listEvents({ query: { after: 'latest', limit: 1 }, signal })).next;
}
