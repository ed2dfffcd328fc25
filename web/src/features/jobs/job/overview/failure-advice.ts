import type { Outcome, Timeline } from '@bursar/client';
import { formatDuration } from '../../../../ui/format.ts';

interface FailureAdvice {
  cause: string;
  /** Things that the user can try, the most likely first. */
  advice: readonly string[];
  /** Whether another submission may succeed. */
  mayHelpToResubmit: boolean;
}

/** Explains a failure by its outcome. */
export function failureAdvice(outcome: Outcome, { request }: Timeline): FailureAdvice {
  switch (outcome) {
    case 'timed_out':
      return {
        cause: `The job needed longer than its granted ${formatDuration(request.runtime * 3600)}, so the system stopped it.`,
        advice: [
          'Submit it again with a longer runtime.',
          'If it writes checkpoints, let it go on from the last one.',
          'Check in the log whether it hung, or was only slow.',
        ],
        mayHelpToResubmit: true,
      };
    case 'out_of_memory':
      return {
        cause: 'The job needed more memory than it got, so the system stopped it.',
        advice: [
          'Submit it again with more cores or nodes: the memory grows with them on most systems.',
          'Let it read its data in smaller parts.',
        ],
        mayHelpToResubmit: true,
      };
    case 'output_exceeded':
      return {
        cause: 'The job wrote more data or more files than it may, so it was stopped.',
        advice: [
          'Delete the files of old jobs to free space.',
          'Write less: remove temporary files, or pack many small ones into one.',
          'Ask the manager of your project for more space.',
        ],
        mayHelpToResubmit: true,
      };
    case 'rejected':
      return {
        cause: 'The system refused the job. It never ran.',
        advice: [
          'Read the words of the system above: they name the option or the file that it refuses.',
          'A script must begin with the name of its interpreter, such as #!/bin/sh.',
        ],
        mayHelpToResubmit: true,
      };
    case 'cancelled_by_site':
      return {
        cause: 'The staff of the system or of your project cancelled the job.',
        advice: ['Read their reason above before you submit it again.', 'Ask them if the reason is not clear.'],
        mayHelpToResubmit: false,
      };
    case 'lost':
      return {
        cause: 'The system lost the job: it no longer knows it, and there is no record of its end.',
        advice: ['Submit it again. It was not your fault, and nothing is charged.'],
        mayHelpToResubmit: true,
      };
    case 'node_failed':
      return {
        cause: 'A node of the system failed while the job ran.',
        advice: ['Submit it again. It was not your fault, and nothing is charged.'],
        mayHelpToResubmit: true,
      };
    case 'preempted':
      return {
        cause: 'The system stopped the job to make room for another one.',
        advice: ['Submit it again. Nothing is charged.', 'A shorter job is stopped less often.'],
        mayHelpToResubmit: true,
      };
    case 'failed':
    case 'succeeded':
    case 'cancelled':
      return {
        cause: 'The program of the job ended with an error.',
        advice: [
          'Read the last lines that it wrote: most programs name the cause there.',
          'Try the same command with small data on your own computer.',
        ],
        mayHelpToResubmit: true,
      };
    default:
      return outcome satisfies never;
  }
}
