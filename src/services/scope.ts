import { BursarError } from '../domain/errors.ts';
import type { HpcSystem } from '../domain/systems/system.ts';
import type { Db } from '../store/database/tables.ts';
import { findProject, type ProjectRecord } from '../store/identity/projects.ts';

export type Systems = ReadonlyMap<string, HpcSystem>;

/** Whose jobs: of one user, or (without one) everybody's, which is for administrators. */
export type Owner = string | undefined;

/** The place that a path names: all systems, one system, or one project of a system. */
export interface Place {
  hpc?: string;
  project?: string;
}

export function systemNamed(systems: Systems, hpc: string): HpcSystem {
  const system = systems.get(hpc);
  if (system === undefined) {
    const known = [...systems.keys()].join(', ');
    throw new BursarError('system_unknown', `There is no HPC system of that name. Known are ${known}.`);
  }
  return system;
}

export async function projectNamed(db: Db, systems: Systems, hpc: string, name: string): Promise<ProjectRecord> {
  systemNamed(systems, hpc);
  const project = await findProject(db, hpc, name);
  if (project === undefined) throw unknownProject(hpc);
  return project;
}

export function unknownProject(hpc: string): BursarError {
  return new BursarError('project_unknown', `${hpc} has no project of that name. GET /quotas/${hpc}/ lists yours.`);
}

/** Throws when the place does not exist. */
export async function checkPlace(db: Db, systems: Systems, place: Place): Promise<void> {
  checkSystem(systems, place);
  const { hpc, project } = place;
  if (hpc !== undefined && project !== undefined) await projectNamed(db, systems, hpc, project);
}

/** The part of it that no database need be asked for. */
export function checkSystem(systems: Systems, { hpc }: Place): void {
  if (hpc !== undefined) systemNamed(systems, hpc);
}
