import { publicSystem } from '../../contract/system.ts';
import type { Db } from '../../store/database/handle.ts';
import { countUnfinishedJobs, listSystems } from '../../store/systems/systems.ts';
import { requireSystem, type Systems } from '../scope.ts';

export interface ReadSystemsDeps {
  db: Db;
  systems: Systems;
  defaultProject(hpc: string): string;
}

/** Reads limits, tools and health of one system or of all, without asking the schedulers. */
export async function readSystems({ db, systems, defaultProject }: ReadSystemsDeps, hpc?: string) {
  if (hpc !== undefined) requireSystem(systems, hpc);
  const records = new Map((await listSystems(db)).map((record) => [record.hpc, record]));
  const counts = await countUnfinishedJobs(db);
  return [...systems.values()].flatMap((system) => {
    const record = records.get(system.name);
    if (record === undefined || (hpc !== undefined && hpc !== system.name)) return [];
    const { queued, running } = counts.get(system.name) ?? { queued: 0, running: 0 };
    return [publicSystem({ ...record, system, defaultProject: defaultProject(system.name), queued, running })];
  });
}
