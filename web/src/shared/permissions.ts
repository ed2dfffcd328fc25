import type { Me } from '@bursar/client';
import { type Action, decide, type SiteRole } from '../../../src/domain/identity/policy.ts';
import { systemName } from './system-name.ts';

export type { Action } from '../../../src/domain/identity/policy.ts';

export interface ProjectName {
  hpc: string;
  project: string;
}

/**
 * Whether the policy lets a user act on the resources of others: anywhere, or as a manager of the given project. The server
 * decides again; the page only hides what it would refuse.
 */
export function mayAdminister(me: Me, action: Action, project?: ProjectName): boolean {
  const role = me.roles.find((each): each is SiteRole => each !== 'project_manager') ?? 'user';
  const decision = decide(action, 'anyone', { role, scopes: new Set(me.scopes) });
  if (decision.kind === 'allowed') return true;
  if (decision.kind !== 'managers_only' || decision.missingScope !== undefined || project === undefined) return false;
  return managedProjects(me).some(({ hpc, project: name }) => hpc === project.hpc && name === project.project);
}

/** The projects that the user manages, by the names that paths use. */
export function managedProjects(me: Me): ProjectName[] {
  return me.projects
    .filter(({ role, status }) => role === 'manager' && status === 'active')
    .map((each) => ({ hpc: systemName(each), project: each.project_name }));
}

/** Whether the user may perform the action somewhere: on all resources, or in a project that they manage. */
export function mayAdministerSomewhere(me: Me, action: Action): boolean {
  return [undefined, ...managedProjects(me)].some((project) => mayAdminister(me, action, project));
}
