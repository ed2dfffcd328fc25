import { openSystem, setSystemStatus } from '../store/systems/systems.ts';
import { startCanceller } from './canceller.ts';
import { startDispatcher } from './dispatcher.ts';
import { duringTenure } from './fenced-engine.ts';
import { keepTenure, type Tenure, type TenureDeps, type Work } from './hold-lease.ts';
import { sweepSpool, sweepWorkspaces } from './sweep.ts';
import type { SystemSite, SystemWorker } from './system-context.ts';
import { startWatcher } from './watcher.ts';

export interface Lifecycle {
  /** Makes a system look for work now, if it is ours: jobs to submit, or to cancel. */
  wake(hpc: string): void;
  /** Lets the rounds under way finish, and leaves the systems to others. Jobs that run go on running. */
  stop(): Promise<void>;
}

/** Takes up each system as soon as nobody else has it: a dispatcher, a watcher and a canceller. */
export async function startLifecycle(sites: readonly SystemSite[], deps: TenureDeps): Promise<Lifecycle> {
  const running = new Map<string, SystemLoops>();
  for (const { db, system, now } of sites) await openSystem(db, system.name, now());
  const tenures = sites.map((site) =>
    keepTenure(deps, `system ${site.system.name}`, async (tenure) => {
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

interface SystemLoops extends Work {
  wake(): void;
}

async function takeUp(site: SystemSite, tenure: Tenure): Promise<SystemLoops> {
  const worker: SystemWorker = { ...site, tenure, engine: duringTenure(site.createEngine(), tenure) };
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
async function sweep(worker: SystemWorker): Promise<void> {
  const { db, spool, staleMs, system, log } = worker;
  await sweepSpool(db, spool, staleMs).catch((error) => {
    log.warn({ err: error, hpc: system.name }, 'the spool cannot be swept now');
  });
  await sweepWorkspaces(worker);
}

async function open({ engine, system, tenure, now }: SystemWorker): Promise<void> {
  try {
    await engine.open(new AbortController().signal);
  } catch (error) {
    const { message } = error as Error;
    await tenure.write((tx) => setSystemStatus(tx, system.name, 'down', now(), message));
    throw error;
  }
}
