import type { Session } from '#client';
import type { Context } from '../context.ts';
import type { Column } from '../terminal/table.ts';
import { relativeTime } from '../terminal/time.ts';

export async function list(context: Context): Promise<void> {
  const { api } = await context.client();
  const sessions = await api.listSessions({ signal: context.signal });
  await context.printTable(sessions, sessionColumns(context), 'You are signed in in no browser.');
}

export function sessionColumns({ now }: Context): Column<Session>[] {
  const time = (title: string, at: (session: Session) => string): Column<Session> => ({
    title,
    value: (session) => relativeTime(at(session), now()),
    plain: at,
  });
  return [
    { title: 'Id', value: ({ id }) => String(id), align: 'right' },
    time('Signed in', (session) => session.created_at),
    time('Last used', (session) => session.last_used_at),
    time('Ends', (session) => session.expires_at),
    { title: 'From', value: ({ address }) => address },
    { title: 'Browser', value: (session) => session.user_agent, flexible: true },
    { title: 'Provider', value: ({ issuer }) => issuer ?? '', flexible: true },
  ];
}

export async function end(context: Context, { id }: { id?: string }): Promise<void> {
  const { api } = await context.client();
  const { signal } = context;
  const ended =
    id === undefined
      ? await api.endOtherSessions({ signal })
      : [await api.endSession({ path: { session_id: id }, signal })];
  if (context.options.json) return await context.printJson(ended);
  context.note(`${ended.length} ${ended.length === 1 ? 'session has' : 'sessions have'} ended.`);
}
