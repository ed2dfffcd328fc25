import { BursarError } from '../src/domain/errors.ts';
import type { Observation } from '../src/domain/jobs/transition.ts';
import { type Engine, startDirectoryOf } from '../src/engines/engine.ts';
import { readScriptFile } from '../src/engines/script-file.ts';
import type { Controller, Entry } from './scheduler.ts';

/** The engine of a server for the simulated scheduler. It passes the contract of all engines. */
export function createSimulatedEngine(controller: Controller): Engine {
  const { nodes } = controller;
  const forgotten = new Set<string>();
  const nameOf = ({ ref, job }: Entry) => `${ref} ${job.jobId}`;
  /** A job that was cancelled while it was held, or that a node refused, counts as not submitted. */
  const isSubmission = ({ job, isHeld, startedAt, end }: Entry) =>
    end === null || (startedAt === null ? !isHeld : nodes.recordOf(job.jobId) !== 'never_started');
  const discard = (entry: Entry | undefined) => {
    if (entry?.isHeld && entry.end === null) controller.cancel(entry);
  };

  return {
    async open() {
      controller.requireUp();
    },

    async submit(job, signal, { isFirstTry = false, beforeSubmission } = {}) {
      signal.throwIfAborted();
      controller.requireUp();
      const [existing, ...duplicates] = isFirstTry ? [] : controller.findAll(job.jobId).filter(isSubmission);
      if (existing !== undefined) {
        beforeSubmission?.();
        duplicates.forEach(discard);
        return existing.ref;
      }
      if (job.command.kind === 'script') {
        const file = await readScriptFile(startDirectoryOf(job), job.command.script);
        if ('rejected' in file) throw new BursarError('job_refused', file.rejected);
      }
      // Another submission may have come in between.
      const earlier = isFirstTry ? undefined : controller.findAll(job.jobId).find(isSubmission);
      beforeSubmission?.();
      return earlier?.ref ?? controller.add(job);
    },

    async release(refs) {
      controller.requireUp();
      for (const [jobId, ref] of refs) {
        const entry = controller.find(ref);
        if (entry?.job.jobId === jobId && entry.isHeld && entry.end === null) controller.release(entry);
      }
    },

    async find(jobs) {
      controller.requireUp();
      const found = new Map<string, string>();
      for (const { jobId } of jobs) {
        const entry = controller.findAll(jobId).find(isSubmission);
        if (entry !== undefined) found.set(jobId, entry.ref);
      }
      return found;
    },

    async observe(expected) {
      controller.requireUp();
      return controller.list().flatMap((entry): Observation[] => {
        const { ref, job, isHeld, startedAt, end } = entry;
        const { jobId } = job;
        const isDuplicate = expected.has(jobId) && expected.get(jobId) !== ref;
        if (end !== null && (forgotten.has(nameOf(entry)) || isDuplicate)) return [];
        if (end !== null) {
          const { reportedAt: _, ...reported } = end;
          return [{ jobId, ref, kind: 'finished', ...reported }];
        }
        if (startedAt !== null) return [{ jobId, ref, kind: 'running', startedAt }];
        return [{ jobId, ref, kind: 'queued', held: isHeld }];
      });
    },

    readEndRecords: async (workspaces) =>
      new Map([...workspaces.keys()].map((jobId) => [jobId, nodes.recordOf(jobId)])),

    async preventStart({ directory }) {
      const [, jobId = ''] = /([^/]+)\/[^/]+$/.exec(directory) ?? [];
      return nodes.preventStart(jobId);
    },

    async inspectMissing(missing) {
      controller.requireUp();
      const statuses = [...missing].map(([jobId, { ref }]) => {
        const isForgotten = controller.find(ref)?.job.jobId !== jobId && !controller.wasPurged(ref, jobId);
        return [jobId, { record: nodes.recordOf(jobId), isForgotten }] as const;
      });
      return new Map(statuses);
    },

    async discard(refs) {
      controller.requireUp();
      for (const ref of refs) discard(controller.find(ref));
    },

    async cancel(jobId) {
      controller.requireUp();
      for (const entry of controller.findAll(jobId)) controller.cancel(entry);
    },

    async forget(jobIds) {
      for (const entry of jobIds.flatMap(controller.findAll)) {
        if (entry.end === null) continue;
        forgotten.add(nameOf(entry));
        controller.forget(entry);
      }
    },

    onChange(listener) {
      controller.listeners.add(listener);
    },

    async close() {
      controller.listeners.clear();
    },
  };
}
