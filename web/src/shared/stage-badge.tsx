import type { Job } from '@bursar/client';
import { Badge, type Tone } from '../ui/badge.tsx';
import { capitalise } from '../ui/format.ts';

/** The stage of a job in the words of its system, with a colour. */
export function StageBadge({ job }: { job: Pick<Job, 'stage' | 'terminal_stage' | 'failed'> }) {
  return <Badge tone={toneOf(job)}>{readable(job.stage)}</Badge>;
}

function toneOf({ stage, terminal_stage: hasEnded, failed }: Pick<Job, 'stage' | 'terminal_stage' | 'failed'>): Tone {
  if (failed) return 'bad';
  // Sites name the stages.
  if (hasEnded) return /cancel|delet/i.test(stage) ? 'neutral' : 'good';
  return /queue|pend|wait|held/i.test(stage) ? 'neutral' : 'info';
}

/** `JOB_COMPLETED` becomes `Job completed`. */
function readable(stage: string): string {
  return capitalise(stage.replaceAll('_', ' ').toLowerCase());
}
