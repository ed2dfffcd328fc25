import { createSlots } from '../../domain/slots.ts';
import type { Workspaces } from './workspaces.ts';

/** Removes the workspaces of jobs that need no files any more, without making anybody wait for the file system. */
export interface FileRemover {
  /** Returns at once, and never throws. A workspace that could not be removed is left to the cleanup. */
  remove(hpc: string, jobId: string): void;
  /** Aborts removals in progress and drops those that wait. */
  stop(): Promise<void>;
}

/** One removal at a time for each system, so that removals that hang delay neither other systems nor other commands. */
export function createFileRemover(
  workspacesByHpc: ReadonlyMap<string, Workspaces>,
  log: { warn(fields: object, message: string): void },
): FileRemover {
  const removals = createSlots({ perKey: 1 });
  /** By job id: a repeated request joins the removal that it asks for. */
  const pending = new Map<string, Promise<void>>();
  const stopping = new AbortController();

  async function removeNow(hpc: string, jobId: string): Promise<void> {
    const { signal } = stopping;
    if (signal.aborted) return;
    try {
      await workspacesByHpc.get(hpc)?.remove(jobId, signal);
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error, hpc, jobId }, 'job files not removed, left to the cleanup');
    }
  }

  return {
    remove(hpc, jobId) {
      if (pending.has(jobId)) return;
      const removal = removals.run(() => removeNow(hpc, jobId), { key: hpc }).finally(() => pending.delete(jobId));
      pending.set(jobId, removal);
    },
    async stop() {
      stopping.abort();
      await Promise.all(pending.values());
    },
  };
}
