import { BursarError } from '../domain/errors.ts';
import type { HpcSystem } from '../domain/systems/system.ts';
import type { Db } from '../store/database/handle.ts';
import { findProject, type ProjectRecord } from '../store/identity/projects.ts';

export type Systems = ReadonlyMap<string, HpcSystem>;

/** Whose jobs: of one user, or (without one) everybody's, which is for administrators. */
export type Owner = string | undefined;

/** The place that a path names: all systems, one system, or one project of a system. */
export interface PathScope {
  hpc?: string;
  project?: string;
}

export function requireSystem(systems: Systems, hpc: string): HpcSystem {
  const system = systems.get(hpc);
  if (system === undefined) {
    const known = [...systems.keys()].join(', ');
    throw new BursarError('system_unknown', `There is no HPC system of that name. Known are ${known}.`);
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
  return new BursarError('project_unknown', `${hpc} has no project of that name. GET /quotas/${hpc}/ lists yours.`);
}

/** Throws when the place does not exist. */
export async function requireScope(db: Db, systems: Systems, place: PathScope): Promise<void> {
  requireScopeSystem(systems, place);
  const { hpc, project } = place;
  if (hpc !== undefined && project !== undefined) await requireProject(db, systems, hpc, project);
}

/** The part of it that no database need be asked for. */
export function requireScopeSystem(systems: Systems, { hpc }: PathScope): void {
  if (hpc !== undefined) requireSystem(systems, hpc);
}
