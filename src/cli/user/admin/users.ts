import { readAllPages, type User } from '#client';
import { sessionColumns } from '../account/sessions.ts';
import { tokenColumns } from '../account/tokens.ts';
import type { Context } from '../context.ts';
import type { Column } from '../terminal/table.ts';
import { relativeTime } from '../terminal/time.ts';

interface UserOptions {
  user: string;
}

interface Reasoned extends UserOptions {
  reason: string;
}

export async function list(context: Context): Promise<void> {
  const { api } = await context.client();
  await context.printTable(await api.listUsers({ signal: context.signal }), columns(context), 'There are no users.');
}

function columns({ now }: Context): Column<User>[] {
  return [
    { title: 'User', value: ({ user }) => user },
    { title: 'Role', value: ({ role }) => role },
    { title: 'Name', value: ({ name }) => name ?? '', flexible: true },
    { title: 'Mail', value: ({ mail }) => mail ?? '', flexible: true },
    { title: 'Created', value: ({ created_at: at }) => relativeTime(at, now()), plain: ({ created_at: at }) => at },
    {
      title: 'Disabled',
      value: ({ disabled_at: at }) => (at === null ? '' : relativeTime(at, now())),
      plain: ({ disabled_at: at }) => at ?? '',
      colour: () => 'red',
    },
  ];
}

export async function show(context: Context, { user }: UserOptions): Promise<void> {
  const { api } = await context.client();
  const details = await api.getUser({ path: { user_id: user }, signal: context.signal });
  if (context.options.json) return await context.printJson(details);
  await context.printFields([
    ['user', details.user],
    ['role', details.role],
    ['name', details.name ?? ''],
    ['mail', details.mail ?? ''],
    ['created', details.created_at],
    ['disabled', details.disabled_at ?? 'no'],
    ...details.identities.map(({ issuer, subject }) => ['identity', `${subject} at ${issuer}`] as const),
  ]);
}

export async function disable(context: Context, { user, reason }: Reasoned): Promise<void> {
  const { api } = await context.client();
  await report(context, await api.disableUser({ path: { user_id: user }, body: { reason }, signal: context.signal }));
}

export async function enable(context: Context, { user, reason }: Reasoned): Promise<void> {
  const { api } = await context.client();
  await report(context, await api.enableUser({ path: { user_id: user }, body: { reason }, signal: context.signal }));
}

export async function setRole(context: Context, options: Reasoned & { role: User['role'] }): Promise<void> {
  const { api } = await context.client();
  const { user, role, reason } = options;
  const body = { role, reason };
  await report(context, await api.setUserRole({ path: { user_id: user }, body, signal: context.signal }));
}

async function report(context: Context, user: User): Promise<void> {
  if (context.options.json) return await context.printJson(user);
  context.note(`User ${user.user}: ${user.role}, ${user.disabled_at === null ? 'enabled' : 'disabled'}.`);
}

export async function listTokens(context: Context, { user }: UserOptions): Promise<void> {
  const { api } = await context.client();
  const { signal } = context;
  const path = { user_id: user };
  const tokens = await readAllPages((query) => api.listTokensOfUser({ path, query, signal }));
  await context.printTable(tokens, tokenColumns(context), `User ${user} has no tokens.`);
}

/** Revokes one token, or all tokens of the user. */
export async function revokeTokens(context: Context, { user, id }: UserOptions & { id?: string }): Promise<void> {
  const { api } = await context.client();
  const { signal } = context;
  const revoked =
    id === undefined
      ? await api.revokeTokensOfUser({ path: { user_id: user }, signal })
      : [await api.revokeTokenOfUser({ path: { user_id: user, token_id: id }, signal })];
  await context.printTable(revoked, tokenColumns(context), `User ${user} has no valid tokens.`);
}

export async function listSessions(context: Context, { user }: UserOptions): Promise<void> {
  const { api } = await context.client();
  const sessions = await api.listSessionsOfUser({ path: { user_id: user }, signal: context.signal });
  await context.printTable(sessions, sessionColumns(context), `User ${user} is signed in in no browser.`);
}

export async function endSessions(context: Context, { user }: UserOptions): Promise<void> {
  const { api } = await context.client();
  const ended = await api.endSessionsOfUser({ path: { user_id: user }, signal: context.signal });
  await context.printTable(ended, sessionColumns(context), `User ${user} is signed in in no browser.`);
}
