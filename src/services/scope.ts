import { BursarError } from '../domain/errors.ts';
import type { HpcSystem } from '../domain/systems/system.ts';
import type { Db } from '../store/database/handle.ts';
import { findProject, type ProjectRecord } from '../store/identity/projects.ts';

export type Systems = ReadonlyMap<string, HpcSystem>;

/** The user whose jobs are meant. Undefined: the jobs of everybody, for administrators. */
export type Owner = string | undefined;

/** The scope of a path: all systems, one system, or one project of a system. */
export interface PathScope {
  hpc?: string;
  project?: string;
}

export function requireSystem(systems: Systems, hpc: string): HpcSystem {
  const system = systems.get(hpc);
  if (system === undefined) {
    const names = [...systems.keys()].join(', ');
    throw new BursarError('system_unknown', `There is no HPC system with this name. Use one of ${names}.`);
  }
  return system;
}

export async function requireProject(db: Db, systems: Systems, hpc: string, name: string): Promise<ProjectRecord> {
  requireSystem(systems, hpc);
  const project = await findProject(db, hpc, name);
  if (project === undefined) throw projectNotFound(hpc);
  return project;
}

export function projectNotFound(hpc: string): BursarError {
  return new BursarError('project_unknown', `${hpc} has no project with this name. GET /quotas/${hpc}/ lists yours.`);
}

/** Returns the project, if the scope names one. Throws if the system or the project does not exist. */
export async function requireScope(db: Db, systems: Systems, scope: PathScope): Promise<ProjectRecord | undefined> {
  requireScopeSystem(systems, scope);
  const { hpc, project } = scope;
  return hpc === undefined || project === undefined ? undefined : await requireProject(db, systems, hpc, project);
}

/** Checks only the system, which needs no query. */
export function requireScopeSystem(systems: Systems, { hpc }: PathScope): void {
  if (hpc !== undefined) requireSystem(systems, hpc);
}
