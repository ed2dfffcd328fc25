import { startDispatcher } from './dispatcher.ts';
import type { SystemWorker } from './system-worker.ts';
import { startWatcher } from './watcher.ts';

export interface Lifecycle {
  /** Makes the dispatcher of a system look for work now. */
  wake(hpc: string): void;
  /** The systems whose engine has not answered for so long. */
  silentSystems(forMs: number, now: number): string[];
  /** Lets the rounds under way finish. Jobs that run go on running. */
  stop(): Promise<void>;
}

/** Starts a dispatcher and a watcher for each system. */
export async function startLifecycle(workers: readonly SystemWorker[]): Promise<Lifecycle> {
  for (const { engine } of workers) await engine.open(new AbortController().signal);
  const startedAt = Date.now();
  const running = new Map(
    workers.map((worker) => {
      const watcher = startWatcher(worker);
      const dispatcher = startDispatcher(worker, watcher.wake);
      return [worker.system.name, { worker, watcher, dispatcher }];
    }),
  );
  return {
    wake: (hpc) => running.get(hpc)?.dispatcher.wake(),
    silentSystems: (forMs, now) =>
      [...running.entries()]
        .filter(([, { watcher }]) => now - (watcher.lastSeenAt() ?? startedAt) > forMs)
        .map(([name]) => name),
    async stop() {
      const all = [...running.values()];
      await Promise.all(all.flatMap(({ dispatcher, watcher }) => [dispatcher.stop(), watcher.stop()]));
      await Promise.all(all.map(({ worker }) => worker.engine.close()));
    },
  };
}
