import type { Static } from 'typebox';
import type { MemberBody, MemberSchema, ProjectBody, ProjectSchema } from '../../contract/administration.ts';
import { toIsoTime, toIsoTimeOrNull } from '../../contract/fields.ts';
import { BursarError } from '../../domain/errors.ts';
import { publicSystemName } from '../../domain/systems/system.ts';
import { bytesPerKb } from '../../domain/units.ts';
import * as members from '../../store/identity/members.ts';
import * as projects from '../../store/identity/projects.ts';
import { listUserIds } from '../../store/identity/users.ts';
import { type AdminRequest, executeAdminAction } from '../admin-action.ts';
import {
  type CommonDeps,
  type PathScope,
  type ProjectScope,
  type ReadDeps,
  requireProject,
  requireScope,
  requireSystem,
} from '../scope.ts';
import { requireUser } from './access.ts';
import { joinProject, storeProject } from './enrolment.ts';

type Project = Static<typeof ProjectSchema>;
type Member = Static<typeof MemberSchema>;

export async function listProjects(deps: ReadDeps, scope: Pick<PathScope, 'hpc'>): Promise<Project[]> {
  await requireScope(deps, scope);
  return (await projects.listProjects(deps.db, scope.hpc)).map(publicProject);
}

export async function createProject(
  deps: CommonDeps,
  hpc: string,
  body: Static<typeof ProjectBody>,
  request: AdminRequest,
): Promise<Project> {
  requireSystem(deps.systems, hpc);
  const { name, auto_join: autoJoin, grant_time_seconds: grantTimeSeconds, grant_space_kb } = body;
  const action = { ...request, name: 'project.create', subject: `${hpc}/${name}`, details: body };
  const created = await executeAdminAction(deps, action, async (tx, createdAt) => {
    if ((await projects.findProject(tx, hpc, name)) !== undefined) {
      throw new BursarError('conflict', `${hpc} already has a project ${name}. Choose another name.`);
    }
    const grant = { grantTimeSeconds, grantSpaceBytes: grant_space_kb * bytesPerKb };
    const newProject = { hpc, name, autoJoin: Number(autoJoin), ...grant, createdAt };
    const project = { ...newProject, id: await storeProject(tx, newProject), closedAt: null };
    if (autoJoin) {
      for (const userId of await listUserIds(tx))
        await joinProject(tx, project, userId, request.actor.userId, createdAt);
    }
    return project;
  });
  return publicProject(created);
}

/** Its submitted jobs continue. Closing it again changes nothing. */
export async function closeProject(
  deps: CommonDeps,
  scope: ProjectScope,
  reason: string,
  request: AdminRequest,
): Promise<Project> {
  const project = await requireProject(deps, scope);
  const action = { ...request, name: 'project.close', subject: `${project.hpc}/${project.name}`, details: { reason } };
  const closedAt = await executeAdminAction(deps, action, async (tx, at) => {
    await projects.closeProject(tx, project.id, at);
    return project.closedAt ?? at;
  });
  return publicProject({ ...project, closedAt });
}

export async function listMembers(deps: ReadDeps, scope: ProjectScope): Promise<Member[]> {
  const { id } = await requireProject(deps, scope);
  return (await members.listMembers(deps.db, id)).map(publicMember);
}

/** Adds, removes, bans or unbans a member. Removed and banned members can read, but not submit. */
export async function setMember(
  deps: CommonDeps,
  scope: ProjectScope,
  userId: string,
  { status, role, reason }: Static<typeof MemberBody>,
  request: AdminRequest,
): Promise<Member> {
  const project = await requireProject(deps, scope);
  const subject = `${project.hpc}/${project.name}/${userId}`;
  const action = { ...request, name: `member.${status}`, subject, details: { ...(role && { role }), reason } };
  return await executeAdminAction(deps, action, async (tx, at) => {
    await requireUser(tx, userId);
    if (status === 'active') await joinProject(tx, project, userId, request.actor.userId, at);
    const member = await members.findMember(tx, userId, project.id);
    if (member === undefined)
      throw new BursarError('conflict', `User ${userId} is not a member of ${project.name}. Add them first.`);
    const joinedBy = 'administrator';
    const changed = { ...member, status, role: role ?? member.role, joinedBy, reason, since: at };
    await members.updateMember(tx, changed);
    return publicMember(changed);
  });
}

function publicProject(project: projects.ProjectRecord): Project {
  return {
    id: project.id,
    project_hpc: publicSystemName(project.hpc),
    project_name: project.name,
    auto_join: project.autoJoin === 1,
    grant_time_seconds: project.grantTimeSeconds,
    grant_space_kb: project.grantSpaceBytes / bytesPerKb,
    created_at: toIsoTime(project.createdAt),
    closed_at: toIsoTimeOrNull(project.closedAt),
  };
}

function publicMember({ userId, status, role, reason, since }: members.MemberRecord): Member {
  return { user: userId, status, role, reason, since: toIsoTime(since) };
}
