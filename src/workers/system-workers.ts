import { ensureSystem, setSystemStatus } from '../store/systems/systems.ts';
import { startCanceller } from './canceller.ts';
import { cleanUpSpool, cleanUpWorkspaces } from './cleanup.ts';
import { startDispatcher } from './dispatcher.ts';
import { fencedEngine } from './fenced-engine.ts';
import { type HeldLease, holdLease, type LeaseDeps, type Stoppable } from './hold-lease.ts';
import type { LeasedSystemDeps, SystemDeps } from './system-deps.ts';
import { startWatcher } from './watcher.ts';

export interface SystemWorkers {
  /** Makes the dispatcher and the canceller of a system poll now, if this process holds its lease. */
  wake(hpc: string): void;
  /** Waits for work in progress, then releases the leases. Running jobs keep running. */
  stop(): Promise<void>;
}

/** For each system, waits for its lease and then runs a dispatcher, a watcher and a canceller. */
export async function startSystemWorkers(systems: readonly SystemDeps[], deps: LeaseDeps): Promise<SystemWorkers> {
  const running = new Map<string, RunningSystem>();
  for (const { db, system, now } of systems) await ensureSystem(db, system.name, now());
  const leases = systems.map((systemDeps) =>
    holdLease(deps, `system ${systemDeps.system.name}`, async (lease) => {
      const workers = await startSystem(systemDeps, lease);
      running.set(systemDeps.system.name, workers);
      return workers;
    }),
  );
  return {
    wake: (hpc) => running.get(hpc)?.wake(),
    async stop() {
      await Promise.all(leases.map((lease) => lease.stop()));
    },
  };
}

interface RunningSystem extends Stoppable {
  wake(): void;
}

async function startSystem(systemDeps: SystemDeps, lease: HeldLease): Promise<RunningSystem> {
  const deps: LeasedSystemDeps = { ...systemDeps, lease, engine: fencedEngine(systemDeps.createEngine(), lease) };
  await openEngine(deps);
  // Watcher and dispatcher wake each other. The watcher is created first, so its callback refers to the later variable.
  const watcher = startWatcher(deps, () => dispatcher.wake());
  const canceller = startCanceller(deps);
  const dispatcher = startDispatcher(deps, () => {
    // With a delay, so that many submissions in a row cause one poll.
    watcher.wake(deps.minPollMs);
    canceller.wake();
  });
  const cleanup = removeLeftovers(deps);
  return {
    wake() {
      dispatcher.wake();
      canceller.wake();
    },
    async stop() {
      await Promise.all([dispatcher, watcher, canceller].map((loop) => loop.stop()));
      await cleanup;
      await deps.engine.close();
    },
  };
}

/** Removes files that an earlier lease holder left. Never throws. */
async function removeLeftovers(deps: LeasedSystemDeps): Promise<void> {
  const { db, spool, staleMs, system, log } = deps;
  await cleanUpSpool(db, spool, staleMs).catch((error) => {
    log.warn({ err: error, hpc: system.name }, 'spool cleanup failed');
  });
  await cleanUpWorkspaces(deps);
}

async function openEngine({ engine, system, lease, now }: LeasedSystemDeps): Promise<void> {
  try {
    await engine.open(new AbortController().signal);
  } catch (error) {
    const { message } = error as Error;
    await lease.transaction((tx) => setSystemStatus(tx, system.name, 'down', now(), message));
    throw error;
  }
}
