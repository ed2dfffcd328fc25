import { BursarError } from '../domain/errors.ts';
import type { HpcSystem } from '../domain/systems/system.ts';
import type { Db } from '../store/database/handle.ts';
import { findProject, type ProjectRecord } from '../store/identity/projects.ts';

export type Systems = ReadonlyMap<string, HpcSystem>;

export interface ReadDeps {
  db: Db;
  systems: Systems;
}

export interface CommonDeps extends ReadDeps {
  now(): number;
}

/** The user whose jobs are meant. Undefined: the jobs of everybody, for administrators. */
export type Owner = string | undefined;

/** The scope of a path: all systems, one system, or one project of a system. */
export interface PathScope {
  hpc?: string;
  project?: string;
}

export type ProjectScope = Required<PathScope>;

export function requireSystem(systems: Systems, hpc: string): HpcSystem {
  const system = systems.get(hpc);
  if (system === undefined) {
    const names = [...systems.keys()].join(', ');
    throw new BursarError('system_unknown', `There is no HPC system with this name. Use one of ${names}.`);
  }
  return system;
}

export async function requireProject(
  { db, systems }: ReadDeps,
  { hpc, project: name }: ProjectScope,
): Promise<ProjectRecord> {
  requireSystem(systems, hpc);
  const project = await findProject(db, hpc, name);
  if (project === undefined) throw projectNotFound(hpc);
  return project;
}

export function projectNotFound(hpc: string): BursarError {
  return new BursarError('project_unknown', `${hpc} has no project with this name. GET /quotas/${hpc}/ lists yours.`);
}

/** Returns the project, if the scope names one. Throws if the system or the project does not exist. */
export async function requireScope(deps: ReadDeps, { hpc, project }: PathScope): Promise<ProjectRecord | undefined> {
  if (hpc !== undefined && project !== undefined) return await requireProject(deps, { hpc, project });
  if (hpc !== undefined) requireSystem(deps.systems, hpc);
  return undefined;
}
