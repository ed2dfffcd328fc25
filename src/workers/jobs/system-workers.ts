import { ensureSystem, updateSystem } from '../../store/systems/systems.ts';
import { startCleanup } from '../cleanup.ts';
import { type HeldLease, holdLease, type LeaseDeps } from '../hold-lease.ts';
import type { Loop } from '../loop.ts';
import { startUsageMonitor } from '../usage-monitor.ts';
import { startCanceller } from './canceller.ts';
import { startDispatcher } from './dispatcher.ts';
import { fencedEngine } from './fenced-engine.ts';
import type { LeasedSystemDeps, SystemDeps } from './system-deps.ts';
import { startWatcher } from './watcher.ts';

/** For each system, waits for its lease and then runs a dispatcher, a watcher and a canceller. */
export async function startSystemWorkers(systems: readonly SystemDeps[], leaseDeps: LeaseDeps) {
  const running = new Map<string, Loop>();
  for (const { db, system, now } of systems) await ensureSystem(db, system.name, now());
  const heldLeases = systems.map((systemDeps) =>
    holdLease(leaseDeps, `system ${systemDeps.system.name}`, async (lease, signal) => {
      const workers = await startWorkers(systemDeps, lease, signal);
      running.set(systemDeps.system.name, workers);
      return workers;
    }),
  );
  return {
    /** Makes the dispatcher and the canceller of a system poll now, if this process holds its lease. */
    wake: (hpc: string) => running.get(hpc)?.wake(),
    /** Aborts work in progress, waits for its end for a limited time, and releases the leases. Running jobs keep running. */
    async stop(): Promise<void> {
      await Promise.all(heldLeases.map((lease) => lease.stop()));
    },
  };
}

async function startWorkers(systemDeps: SystemDeps, lease: HeldLease, signal: AbortSignal): Promise<Loop> {
  const deps: LeasedSystemDeps = { ...systemDeps, lease, engine: fencedEngine(systemDeps.createEngine(), lease) };
  await openEngine(deps, signal);
  // Watcher and dispatcher wake each other. The watcher is created first, so its callback refers to the later variable.
  const watcher = startWatcher(deps, () => dispatcher.wake());
  const canceller = startCanceller(deps);
  const dispatcher = startDispatcher(deps, () => {
    // With a delay, so that many submissions in a row cause one poll.
    watcher.wake(deps.minPollMs);
    canceller.wake();
  });
  const usageMonitor = startUsageMonitor(deps, () => canceller.wake());
  const cleanup = startCleanup(deps);
  return {
    wake() {
      dispatcher.wake();
      canceller.wake();
    },
    async stop() {
      await Promise.all([dispatcher, watcher, canceller, usageMonitor, cleanup].map((loop) => loop.stop()));
      await deps.engine.close();
    },
  };
}

async function openEngine({ engine, system, lease, now }: LeasedSystemDeps, signal: AbortSignal): Promise<void> {
  try {
    await engine.open(signal);
  } catch (error) {
    const { message } = error as Error;
    await lease.transaction((tx) => updateSystem(tx, system.name, { status: 'down', since: now(), detail: message }));
    throw error;
  }
}
