import { startCanceller } from './canceller.ts';
import { startDispatcher } from './dispatcher.ts';
import type { SystemWorker } from './system-worker.ts';
import { startWatcher } from './watcher.ts';

export interface Lifecycle {
  /** Makes a system look for work now: jobs to submit, or to cancel. */
  wake(hpc: string): void;
  /** The systems whose engine has not answered for so long. */
  silentSystems(forMs: number, now: number): string[];
  /** Lets the rounds under way finish. Jobs that run go on running. */
  stop(): Promise<void>;
}

/** Starts a dispatcher, a watcher and a canceller for each system. */
export async function startLifecycle(workers: readonly SystemWorker[]): Promise<Lifecycle> {
  for (const { engine } of workers) await engine.open(new AbortController().signal);
  const startedAt = Date.now();
  const running = new Map(
    workers.map((worker) => {
      const watcher = startWatcher(worker);
      const canceller = startCanceller(worker);
      const dispatcher = startDispatcher(worker, () => {
        watcher.wake();
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
    silentSystems: (forMs, now) =>
      [...running.entries()]
        .filter(([, { watcher }]) => now - (watcher.lastSeenAt() ?? startedAt) > forMs)
        .map(([name]) => name),
    async stop() {
      const all = [...running.values()];
      const loops = all.flatMap(({ dispatcher, watcher, canceller }) => [dispatcher, watcher, canceller]);
      await Promise.all(loops.map((loop) => loop.stop()));
      await Promise.all(all.map(({ worker }) => worker.engine.close()));
    },
  };
}
