import type { System } from '#client';
import type { Context } from './context.ts';
import type { Colour } from './terminal/style.ts';
import type { Column } from './terminal/table.ts';
import { formatExactNumber, relativeTime } from './terminal/time.ts';

interface SystemsOptions {
  name?: string;
  /** For `admin systems`: with the errors of the schedulers. */
  forAdministrators?: boolean;
}

export async function run(context: Context, { name, forAdministrators = false }: SystemsOptions): Promise<void> {
  const { api } = await context.client();
  const { signal } = context;
  if (name === undefined) {
    const systems = forAdministrators
      ? await api.listSystemsForAdministrators({ signal })
      : await api.listSystems({ signal });
    return await context.printTable(systems, systemColumns, 'There are no systems.');
  }
  const path = { hpc: name };
  const system = forAdministrators
    ? await api.getSystemForAdministrators({ path, signal })
    : await api.getSystem({ path, signal });
  if (context.options.json) return await context.printJson(system);
  await context.printFields(describeSystem(context, system));
}

const statusColours: Record<System['status'], Colour> = { up: 'green', degraded: 'yellow', down: 'red' };
const statusOf = ({ status, paused_at: pausedAt }: System) => (pausedAt === null ? status : `${status}, paused`);

export const systemColumns: Column<System>[] = [
  { title: 'System', value: ({ hpc }) => hpc },
  { title: 'Status', value: statusOf, colour: ({ status }) => statusColours[status] },
  { title: 'Kind', value: ({ kind }) => kind },
  { title: 'Queued', value: (system) => formatExactNumber(system.queued_jobs), align: 'right' },
  { title: 'Running', value: (system) => formatExactNumber(system.running_jobs), align: 'right' },
  {
    title: 'At most',
    value: ({ limits }) => `${limits.nodes} × ${limits.cores_per_node} cores, ${limits.runtime} h`,
    plain: ({ limits }) => `${limits.nodes} nodes, ${limits.cores_per_node} cores, ${limits.runtime} h`,
  },
  { title: 'Default project', value: (system) => system.default_project, flexible: true },
  { title: 'Tools', value: ({ tools }) => tools.map(({ name }) => name).join(' '), flexible: true },
  { title: 'Detail', value: ({ detail }) => detail, flexible: true },
];

function describeSystem({ isTerminal, now }: Context, system: System): (readonly [string, string])[] {
  const { limits, defaults, tools } = system;
  const since = isTerminal ? relativeTime(system.status_since, now()) : system.status_since;
  const size = (value: System['limits']) => `${value.nodes} nodes, ${value.cores_per_node} cores, ${value.runtime} h`;
  const parameter = ({ name, type, required }: System['tools'][number]['parameters'][number]) =>
    `${name} (${type}${required ? ', required' : ''})`;
  return [
    ['system', system.hpc],
    ['status', `${statusOf(system)}, since ${since}`],
    ['detail', system.detail],
    ...(system.pause_reason === null ? [] : [['paused', system.pause_reason] as const]),
    ['kind', system.kind === 'batch' ? 'batch: a job is a command' : 'tool: a job names a tool'],
    ['charges', { core: 'core-seconds', node: 'node-seconds', wall: 'seconds' }[system.charge]],
    ['at most', size(limits)],
    ['default', size(defaults)],
    ['default project', system.default_project],
    ['isolation', system.isolation],
    ['queued', String(system.queued_jobs)],
    ['running', String(system.running_jobs)],
    ...tools.map(({ name, entry, parameters }) => {
      const needs = entry === null ? '' : `, starts with ${entry}`;
      const list = parameters.map(parameter).join(', ');
      return [`tool ${name}`, `${list === '' ? 'no parameters' : list}${needs}`] as const;
    }),
  ];
}
