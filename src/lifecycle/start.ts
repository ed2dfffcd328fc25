import { openSystem } from '../store/systems.ts';
import { startCanceller } from './canceller.ts';
import { startDispatcher } from './dispatcher.ts';
import type { SystemWorker } from './system-worker.ts';
import { startWatcher } from './watcher.ts';

export interface Lifecycle {
  /** Makes a system look for work now: jobs to submit, or to cancel. */
  wake(hpc: string): void;
  /** Lets the rounds under way finish. Jobs that run go on running. */
  stop(): Promise<void>;
}

/** Starts a dispatcher, a watcher and a canceller for each system. */
export async function startLifecycle(workers: readonly SystemWorker[]): Promise<Lifecycle> {
  for (const { db, engine, system, now } of workers) {
    await openSystem(db, system.name, now());
    await engine.open(new AbortController().signal);
  }
  const running = new Map(
    workers.map((worker) => {
      // A job that its system lost goes back to the dispatcher, which is made after the watcher that it wakes.
      const watcher = startWatcher(worker, () => running.get(worker.system.name)?.dispatcher.wake());
      const canceller = startCanceller(worker);
      const dispatcher = startDispatcher(worker, () => {
        // No sooner: a look after each of many submissions would be many looks.
        watcher.wake(worker.watchMs);
        canceller.wake();
      });
      return [worker.system.name, { worker, watcher, canceller, dispatcher }];
    }),
  );
  return {
    wake: (hpc) => {
      running.get(hpc)?.dispatcher.wake();
      running.get(hpc)?.canceller.wake();
    },
    async stop() {
      const all = [...running.values()];
      const loops = all.flatMap(({ dispatcher, watcher, canceller }) => [dispatcher, watcher, canceller]);
      await Promise.all(loops.map((loop) => loop.stop()));
      await Promise.all(all.map(({ worker }) => worker.engine.close()));
    },
  };
}
