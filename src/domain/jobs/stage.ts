import { assertNever } from '../errors.ts';
import type { JobStatus } from './job.ts';

/** The names that a system shows to users for the states of its jobs. */
export interface StageNames {
  queued: string;
  running: string;
  succeeded: string;
  failed: string;
  cancelled: string;
  deleted: string;
}

export function toStage(status: JobStatus, stageNames: StageNames): string {
  switch (status.state) {
    case 'accepted':
    case 'submitting':
    case 'queued':
      return stageNames.queued;
    case 'running':
      return stageNames.running;
    case 'ended':
      if (status.outcome === 'succeeded') return stageNames.succeeded;
      return status.outcome === 'cancelled' ? stageNames.cancelled : stageNames.failed;
    case 'deleted':
      return stageNames.deleted;
    default:
      return assertNever(status);
  }
}
