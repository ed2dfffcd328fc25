import { randomUUID } from 'node:crypto';
import type { Member, Project } from '#client';
import { formatBytes, formatNumber } from '../../../domain/format-amount.ts';
import type { Context } from '../context.ts';
import { usageError } from '../errors.ts';
import { parseProject } from '../project.ts';
import type { Column } from '../terminal/table.ts';
import { relativeTime } from '../terminal/time.ts';
import { parseAmount } from './amounts.ts';

interface ProjectOptions {
  project: string;
  key?: string;
}

/** A command that is repeated with the same key has no further effect. */
const keyOf = ({ key }: ProjectOptions) => ({ 'Idempotency-Key': key ?? randomUUID() });

export async function list(context: Context, { system }: { system?: string }): Promise<void> {
  const { api } = await context.client();
  const { signal } = context;
  const projects =
    system === undefined
      ? await api.listProjects({ signal })
      : await api.listProjectsOnSystem({ path: { hpc: system }, signal });
  await context.printTable(projects, columns(context), 'There are no projects.');
}

function columns({ now }: Context): Column<Project>[] {
  return [
    { title: 'System', value: ({ project_hpc: name }) => name.toLowerCase() },
    { title: 'Project', value: ({ project_name: name }) => name, flexible: true },
    { title: 'Joined by', value: ({ auto_join: auto }) => (auto ? 'everybody' : 'members') },
    {
      title: 'Hours',
      value: (project) => formatNumber(project.grant_time_seconds / 3600),
      plain: (project) => String(project.grant_time_seconds / 3600),
      align: 'right',
    },
    {
      title: 'Space',
      value: (project) => formatBytes(project.grant_space_kb * 1000),
      plain: (project) => String(project.grant_space_kb),
      align: 'right',
    },
    {
      title: 'Closed',
      value: ({ closed_at: at }) => (at === null ? '' : relativeTime(at, now())),
      plain: ({ closed_at: at }) => at ?? '',
    },
  ];
}

interface CreateOptions extends ProjectOptions {
  time: string;
  space: string;
  autoJoin?: boolean;
  reason: string;
}

export async function create(context: Context, options: CreateOptions): Promise<void> {
  const { api } = await context.client();
  const { hpc, project_name: name } = parseProject(options.project);
  const body = {
    name,
    auto_join: options.autoJoin ?? false,
    grant_time_seconds: parseAmount('--time', options.time),
    grant_space_kb: parseAmount('--space', options.space),
    reason: options.reason,
  };
  await report(
    context,
    await api.createProject({ path: { hpc }, body, headers: keyOf(options), signal: context.signal }),
    'is created',
  );
}

export async function close(context: Context, options: ProjectOptions & { reason: string }): Promise<void> {
  const { api } = await context.client();
  const { project, reason } = options;
  const request = { path: parseProject(project), body: { reason }, headers: keyOf(options), signal: context.signal };
  await report(context, await api.closeProject(request), 'is closed');
}

async function report(context: Context, project: Project, what: string): Promise<void> {
  if (context.options.json) return await context.printJson(project);
  context.note(`Project ${project.project_hpc.toLowerCase()}/${project.project_name} ${what}.`);
}

export async function listMembers(context: Context, { project }: ProjectOptions): Promise<void> {
  const { api } = await context.client();
  const members = await api.listMembers({ path: parseProject(project), signal: context.signal });
  await context.printTable(members, memberColumns(context), 'The project has no members.');
}

function memberColumns({ now }: Context): Column<Member>[] {
  return [
    { title: 'User', value: ({ user }) => user },
    { title: 'Role', value: ({ role }) => role },
    { title: 'Status', value: ({ status }) => status, colour: ({ status }) => (status === 'active' ? 'green' : 'red') },
    { title: 'Since', value: ({ since }) => relativeTime(since, now()), plain: ({ since }) => since },
    { title: 'Reason', value: ({ reason }) => reason, flexible: true },
  ];
}

interface MemberOptions extends ProjectOptions {
  user: string;
  status?: string;
  role?: string;
  reason: string;
}

/** Adds, removes or bans a member, or changes the role. */
export async function setMember(context: Context, options: MemberOptions): Promise<void> {
  const { user, status, role, reason } = options;
  const { signal } = context;
  const { api } = await context.client();
  const path = { ...parseProject(options.project), user_id: user };
  const earlier =
    status === undefined ? (await api.listMembers({ path, signal })).find((member) => member.user === user) : undefined;
  if (earlier !== undefined && role === undefined)
    throw usageError(
      `Nothing would change: user ${user} is in the project (${earlier.role}, ${earlier.status}).`,
      'Give --status active, removed or banned, or --role member or manager.',
    );
  const body = {
    status: (status ?? earlier?.status ?? 'active') as Member['status'],
    ...(role === undefined ? {} : { role: role as Member['role'] }),
    reason,
  };
  const member = await api.setMember({ path, body, signal });
  if (context.options.json) return await context.printJson(member);
  context.note(`User ${member.user}: ${member.role}, ${member.status}.`);
}
