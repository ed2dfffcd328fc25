import type { Quota, System } from '#client';
import { formatBytes, formatCharge } from '../../../domain/format-amount.ts';
import type { Context } from '../context.ts';
import type { Column } from '../terminal/table.ts';

interface QuotaOptions {
  system?: string;
  project?: string;
}

export async function run(context: Context, { system, project }: QuotaOptions): Promise<void> {
  const client = await context.client();
  const { signal } = context;
  const quotas = await client.quotas({ ...(system === undefined ? {} : { hpc: system }), signal });
  const wanted = quotas.filter((quota) => project === undefined || quota.project_name === project);
  const columns = context.isTerminal ? quotaColumns(await client.api.listSystems({ signal })) : quotaColumns([]);
  await context.printTable(wanted, columns, 'You have no quota. Ask the operators to make you a member of a project.');
}

/** A terminal shows the units of the systems, a pipe the seconds and KB of the API. */
export function quotaColumns(systems: readonly System[], options: { user?: boolean } = {}): Column<Quota>[] {
  const charge = (quota: Quota) =>
    systems.find(({ project_hpc: name }) => name === quota.project_hpc)?.charge ?? 'wall';
  return [
    ...(options.user ? [{ title: 'User', value: (quota: Quota) => quota.user }] : []),
    { title: 'System', value: (quota) => quota.project_hpc.toLowerCase() },
    { title: 'Project', value: (quota) => quota.project_name, flexible: true },
    {
      title: 'Time left',
      value: (quota) => formatCharge(quota.time_left, charge(quota)),
      plain: (quota) => String(quota.time_left),
      colour: (quota) => (quota.time_left <= 0 ? 'red' : undefined),
      align: 'right',
    },
    {
      title: 'Space left',
      value: (quota) => formatBytes(Math.max(0, quota.space_left) * 1000),
      plain: (quota) => String(quota.space_left),
      colour: (quota) => (quota.space_left <= 0 ? 'red' : undefined),
      align: 'right',
    },
  ];
}
