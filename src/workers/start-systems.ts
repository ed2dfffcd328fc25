import { openSystem, setSystemStatus } from '../store/systems/systems.ts';
import { startCanceller } from './canceller.ts';
import { startDispatcher } from './dispatcher.ts';
import { fencedEngine } from './fenced-engine.ts';
import { type HeldLease, holdLease, type LeaseDeps, type LeasedWork } from './hold-lease.ts';
import { sweepSpool, sweepWorkspaces } from './sweep.ts';
import type { LeasedSystem, SystemDeps } from './system-context.ts';
import { startWatcher } from './watcher.ts';

export interface SystemWorkers {
  /** Makes a system look for work now, if it is ours: jobs to submit, or to cancel. */
  wake(hpc: string): void;
  /** Lets the rounds under way finish, and leaves the systems to others. Jobs that run go on running. */
  stop(): Promise<void>;
}

/** Takes up each system as soon as nobody else has it: a dispatcher, a watcher and a canceller. */
export async function startSystemWorkers(sites: readonly SystemDeps[], deps: LeaseDeps): Promise<SystemWorkers> {
  const running = new Map<string, SystemLoops>();
  for (const { db, system, now } of sites) await openSystem(db, system.name, now());
  const tenures = sites.map((site) =>
    holdLease(deps, `system ${site.system.name}`, async (tenure) => {
      const loops = await takeUp(site, tenure);
      running.set(site.system.name, loops);
      return loops;
    }),
  );
  return {
    wake: (hpc) => running.get(hpc)?.wake(),
    async stop() {
      await Promise.all(tenures.map((tenure) => tenure.stop()));
    },
  };
}

interface SystemLoops extends LeasedWork {
  wake(): void;
}

async function takeUp(site: SystemDeps, tenure: HeldLease): Promise<SystemLoops> {
  const worker: LeasedSystem = { ...site, lease: tenure, engine: fencedEngine(site.createEngine(), tenure) };
  await open(worker);
  // A job that its system lost goes back to the dispatcher, which is made after the watcher that it wakes.
  const watcher = startWatcher(worker, () => dispatcher.wake());
  const canceller = startCanceller(worker);
  const dispatcher = startDispatcher(worker, () => {
    // No sooner: a look after each of many submissions would be many looks.
    watcher.wake(worker.watchMs);
    canceller.wake();
  });
  const sweeping = sweep(worker);
  return {
    wake() {
      dispatcher.wake();
      canceller.wake();
    },
    async stop() {
      await Promise.all([dispatcher, watcher, canceller].map((loop) => loop.stop()));
      await sweeping;
      await worker.engine.close();
    },
  };
}

/** What an earlier holder left. */
async function sweep(worker: LeasedSystem): Promise<void> {
  const { db, spool, staleMs, system, log } = worker;
  await sweepSpool(db, spool, staleMs).catch((error) => {
    log.warn({ err: error, hpc: system.name }, 'the spool cannot be swept now');
  });
  await sweepWorkspaces(worker);
}

async function open({ engine, system, lease: tenure, now }: LeasedSystem): Promise<void> {
  try {
    await engine.open(new AbortController().signal);
  } catch (error) {
    const { message } = error as Error;
    await tenure.transaction((tx) => setSystemStatus(tx, system.name, 'down', now(), message));
    throw error;
  }
}
