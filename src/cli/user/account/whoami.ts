import type { Context } from '../context.ts';
import { resolveAccount } from '../profiles/connect.ts';
import { relativeTime } from '../terminal/time.ts';

export async function run(context: Context): Promise<void> {
  const { api } = await context.client();
  const me = await api.getMe({ signal: context.signal });
  if (context.options.json) return context.printJson(me);
  const { url, profileName } = await resolveAccount(context.env, context.options);
  const time = (text: string) => (context.isTerminal ? relativeTime(text, context.now()) : text);
  const projects = me.projects.filter(({ status }) => status === 'active');
  const rows = [
    ['user', [me.user, me.name ?? '', me.mail ?? ''].filter(Boolean).join(' ')],
    ['server', url],
    ['profile', profileName ?? '(BURSAR_TOKEN)'],
    ['roles', me.roles.join(', ')],
    ['token may', me.scopes.join(', ')],
    ['token ends', me.expires_at === null ? 'never' : time(me.expires_at)],
    ['projects', projects.map((project) => `${project.project_hpc.toLowerCase()}/${project.project_name}`).join(', ')],
  ] as const;
  await context.printFields(rows);
}
