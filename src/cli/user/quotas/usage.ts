import type { Usage } from '#client';
import { formatNumber } from '../../../domain/format-amount.ts';
import type { Context } from '../context.ts';
import { usageError } from '../errors.ts';
import type { Column } from '../terminal/table.ts';
import { formatExactNumber } from '../terminal/time.ts';

interface UsageOptions {
  csv?: boolean;
  /** For `admin usage`: one user, or "all". */
  user?: string;
  system?: string;
  project?: string;
}

export async function run(context: Context, { csv, user, system, project }: UsageOptions): Promise<void> {
  if (csv && context.options.json) throw usageError('--csv and --json exclude each other.');
  const { api } = await context.client();
  const { signal } = context;
  const path = { user_id: user ?? '' };
  const query = {
    ...(system === undefined ? {} : { hpc: system }),
    ...(project === undefined ? {} : { project_name: project }),
  };
  if (csv) {
    const request = { query: { ...query, format: 'csv' }, signal, as: 'text' } as const;
    if (user === undefined) return await context.print(await api.getUsage(request));
    if (user === 'all') return await context.print(await api.getUsageOfAllUsers(request));
    return await context.print(await api.getUsageOfUser({ path, ...request }));
  }
  const usage =
    user === undefined
      ? await api.getUsage({ query, signal })
      : user === 'all'
        ? await api.getUsageOfAllUsers({ query, signal })
        : await api.getUsageOfUser({ path, query, signal });
  await context.printTable(usage, columns(user !== undefined), 'No job has ended yet.');
}

function columns(showsUser: boolean): Column<Usage>[] {
  return [
    { title: 'Month', value: ({ month }) => month },
    ...(showsUser ? [{ title: 'User', value: ({ user }: Usage) => user }] : []),
    { title: 'System', value: ({ project_hpc: name }) => name.toLowerCase() },
    { title: 'Project', value: ({ project_name: name }) => name, flexible: true },
    { title: 'Jobs', value: ({ jobs }) => formatExactNumber(jobs), plain: ({ jobs }) => String(jobs), align: 'right' },
    {
      title: 'Charged hours',
      value: ({ time_seconds: seconds }) => formatNumber(seconds / 3600),
      plain: ({ time_seconds: seconds }) => String(seconds / 3600),
      align: 'right',
    },
  ];
}
