import { publicSystem } from '../../contract/system.ts';
import { publicDetails, type StorageProblem, withDelayedJobs } from '../../domain/systems/health.ts';
import { countDelayedJobs } from '../../store/systems/backlog.ts';
import { countUnfinishedJobs, listSystems, type SystemRecord, updateSystem } from '../../store/systems/systems.ts';
import { type AdminRequest, executeAdminAction } from '../admin-action.ts';
import { type CommonDeps, requireSystem } from '../scope.ts';
import type { ServiceDeps } from '../service-deps.ts';

type SystemDeps = CommonDeps & Pick<ServiceDeps, 'inputLimits' | 'defaultProject' | 'isolationOf' | 'storageProblem'>;

/**
 * Reads limits, tools and health of one system or of all, without asking the schedulers. Only operators get the errors of
 * the schedulers.
 */
export async function readSystems(deps: SystemDeps, readers: 'users' | 'operators', hpc?: string) {
  const { db, systems, inputLimits, defaultProject } = deps;
  if (hpc !== undefined) requireSystem(systems, hpc);
  const records = new Map((await listSystems(db)).map((record) => [record.hpc, record]));
  const counts = await countUnfinishedJobs(db);
  const delayed = await countDelayedJobs(db);
  return [...systems.values()].flatMap((system) => {
    const record = records.get(system.name);
    if (record === undefined || (hpc !== undefined && hpc !== system.name)) return [];
    const { queued, running } = counts.get(system.name) ?? { queued: 0, running: 0 };
    const detail = readers === 'users' ? publicDetails[record.status] : record.detail;
    const current = { ...record, detail, ...storageStatus(deps.storageProblem()) };
    const health = withDelayedJobs(current, delayed.get(system.name));
    const { name } = system;
    const fields = { system, inputLimits, defaultProject: defaultProject(name), isolation: deps.isolationOf(name) };
    return [publicSystem({ ...health, ...fields, queued, running })];
  });
}

/** The status of every system while the server cannot store data. It cannot be stored itself. */
function storageStatus(problem: StorageProblem | null): Partial<SystemRecord> {
  return problem === null ? {} : { status: 'down', since: problem.since, detail: problem.detail };
}

/** Stops new submissions to a system, or allows them again. */
export async function setPaused(
  deps: SystemDeps,
  hpc: string,
  isPaused: boolean,
  reason: string,
  request: AdminRequest,
) {
  requireSystem(deps.systems, hpc);
  const action = { ...request, name: isPaused ? 'system.pause' : 'system.resume', subject: hpc, details: { reason } };
  return await executeAdminAction(deps, action, async (tx, at) => {
    await updateSystem(tx, hpc, { pausedAt: isPaused ? at : null, pauseReason: isPaused ? reason : null });
    return await readSystems({ ...deps, db: tx }, 'operators', hpc);
  });
}
