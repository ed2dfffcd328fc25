import { assertNever } from '../errors.ts';
import type { JobStatus } from './job.ts';

/** The words in which a system tells where a job stands. */
export interface StageNames {
  queued: string;
  running: string;
  succeeded: string;
  failed: string;
  cancelled: string;
  deleted: string;
}

export function toStage(status: JobStatus, words: StageNames): string {
  switch (status.state) {
    case 'accepted':
    case 'submitting':
    case 'queued':
      return words.queued;
    case 'running':
      return words.running;
    case 'ended':
      if (status.outcome === 'succeeded') return words.succeeded;
      return status.outcome === 'cancelled' ? words.cancelled : words.failed;
    case 'deleted':
      return words.deleted;
    default:
      return assertNever(status);
  }
}
