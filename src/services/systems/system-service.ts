import { publicSystem, type SystemFields } from '../../contract/system.ts';
import { publicDetails, type StorageProblem, withDelayedJobs } from '../../domain/systems/health.ts';
import type { Isolation } from '../../domain/systems/isolation.ts';
import type { Db, Tx } from '../../store/database/handle.ts';
import { countDelayedJobs } from '../../store/systems/backlog.ts';
import { countUnfinishedJobs, listSystems, type SystemRecord, setSystemPause } from '../../store/systems/systems.ts';
import { executeAdminAction } from '../accounting/admin-actions.ts';
import type { IdempotentRequest } from '../idempotency.ts';
import type { Actor } from '../identity/actor.ts';
import { requireSystem, type Systems } from '../scope.ts';

export interface SystemServiceDeps {
  db: Db;
  systems: Systems;
  inputLimits: SystemFields['inputLimits'];
  defaultProject(hpc: string): string;
  isolationOf(hpc: string): Isolation['kind'];
  storageProblem(): StorageProblem | null;
  now(): number;
}

export type SystemService = ReturnType<typeof createSystemService>;

export function createSystemService(deps: SystemServiceDeps) {
  return {
    /** For users: without the errors of the scheduler. */
    read: (hpc?: string) => readSystems(deps, 'users', hpc),
    /** For administrators, with the errors. */
    readForOperators: (hpc?: string) => readSystems(deps, 'operators', hpc),
    pause: (actor: Actor, hpc: string, reason: string, request: IdempotentRequest | null) =>
      setPause(deps, actor, hpc, { at: deps.now(), reason }, reason, request),
    resume: (actor: Actor, hpc: string, reason: string, request: IdempotentRequest | null) =>
      setPause(deps, actor, hpc, null, reason, request),
  };
}

/** Reads limits, tools and health of one system or of all, without asking the schedulers. */
async function readSystems(deps: Omit<SystemServiceDeps, 'now'>, readers: 'users' | 'operators', hpc?: string) {
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

/** Stops new submissions to a system or, with null, allows them again. */
async function setPause(
  deps: SystemServiceDeps,
  actor: Actor,
  hpc: string,
  pause: { at: number; reason: string } | null,
  reason: string,
  request: IdempotentRequest | null,
) {
  requireSystem(deps.systems, hpc);
  const action = {
    actor,
    name: pause === null ? 'system.resume' : 'system.pause',
    subject: hpc,
    details: { reason },
    execute: async (tx: Tx) => {
      await setSystemPause(tx, hpc, pause);
      return await readSystems({ ...deps, db: tx }, 'operators', hpc);
    },
  };
  return await executeAdminAction(deps.db, request, action, deps.now());
}
