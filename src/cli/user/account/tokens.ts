import { readAllPages, type Token } from '#client';
import type { Context } from '../context.ts';
import { parseCount } from '../parse-options.ts';
import type { Column } from '../terminal/table.ts';
import { relativeTime } from '../terminal/time.ts';

export async function list(context: Context): Promise<void> {
  const { api } = await context.client();
  const { signal } = context;
  const tokens = await readAllPages((query) => api.listTokens({ query, signal }));
  await context.printTable(tokens, tokenColumns(context), 'You have no tokens of Bursar.');
}

export function tokenColumns({ now }: Context): Column<Token>[] {
  return [
    { title: 'Id', value: ({ id }) => String(id), align: 'right' },
    { title: 'Name', value: ({ name }) => name, flexible: true },
    { title: 'State', value: ({ state }) => state, colour: ({ state }) => (state === 'valid' ? 'green' : 'dim') },
    { title: 'Scopes', value: ({ scopes }) => scopes.join(' '), flexible: true },
    { title: 'Only for', value: ({ hpc, project_name: project }) => [hpc, project].filter(Boolean).join('/') },
    {
      title: 'Ends',
      value: ({ expires_at: at }) => (at === null ? 'never' : relativeTime(at, now())),
      plain: ({ expires_at: at }) => at ?? '',
    },
    {
      title: 'Last used',
      value: ({ last_used_on: day }) => day ?? 'never',
      plain: ({ last_used_on: day }) => day ?? '',
    },
  ];
}

interface CreateOptions {
  name: string;
  scopes?: string;
  system?: string;
  project?: string;
  days?: string;
}

/** Prints only the token to standard output, so that it can be stored by a script. */
export async function create(context: Context, options: CreateOptions): Promise<void> {
  const { api } = await context.client();
  const days = parseCount('--days', options.days);
  const token = await api.createToken({
    body: {
      name: options.name,
      // The server checks the scopes, and lists the known ones.
      ...(options.scopes === undefined
        ? {}
        : { scopes: options.scopes.split(/[\s,]+/).filter(Boolean) as Token['scopes'] }),
      ...(options.system === undefined ? {} : { hpc: options.system }),
      ...(options.project === undefined ? {} : { project_name: options.project }),
      ...(days === undefined ? {} : { days }),
    },
    signal: context.signal,
  });
  if (context.options.json) return await context.printJson(token);
  await context.print(`${token.token}\n`);
  context.note(`Token ${token.id} may: ${token.scopes.join(', ')}. It is not shown again.`);
}

export async function revoke(context: Context, { id }: { id: string }): Promise<void> {
  const { api } = await context.client();
  const token = await api.revokeToken({ path: { token_id: id }, signal: context.signal });
  if (context.options.json) return await context.printJson(token);
  context.note(`Token ${token.id} is revoked.`);
}
