import type { Context } from '../context.ts';
import { createLiveView, type LiveView } from '../terminal/live-view.ts';
import { maxTableRows, selectRows } from '../terminal/select-rows.ts';
import type { Colour } from '../terminal/style.ts';
import { type Column, terminalLines } from '../terminal/table.ts';
import { hasEnded, hasFailed, hasSucceeded, type SweepRun } from './sweep-runs.ts';

/** The columns of a table of runs: the parameters, the job and its stage. */
export function sweepColumns(parameterNames: readonly string[], showsResults: boolean): Column<SweepRun>[] {
  return [
    ...parameterNames.map((name) => ({ title: name, value: ({ combination }: SweepRun) => combination[name] ?? '' })),
    { title: 'Job', value: ({ job }) => job?.job_id ?? '-', flexible: true },
    { title: 'Stage', value: stageOf, colour: colourOf },
    ...(showsResults
      ? [{ title: 'Results', value: ({ collectedTo }: SweepRun) => collectedTo ?? '-', flexible: true }]
      : []),
  ];
}

function stageOf({ job, isSubmitting }: SweepRun): string {
  return job?.stage ?? (isSubmitting ? 'submitting' : 'waiting');
}

function colourOf(run: SweepRun): Colour | undefined {
  if (hasFailed(run)) return 'red';
  if (hasEnded(run)) return hasSucceeded(run) ? 'green' : 'yellow';
  return run.job === null ? 'dim' : undefined;
}

/** "30 combinations: 12 waiting, 10 unfinished, 7 succeeded, 1 failed" */
export function summarize(runs: readonly SweepRun[]): string {
  const counts = {
    waiting: runs.filter(({ job }) => job === null).length,
    unfinished: runs.filter((run) => run.job !== null && !hasEnded(run)).length,
    succeeded: runs.filter(hasSucceeded).length,
    failed: runs.filter(hasFailed).length,
    cancelled: runs.filter((run) => hasEnded(run) && !hasFailed(run) && !hasSucceeded(run)).length,
  };
  const shown = Object.entries(counts).filter(([, count]) => count > 0);
  return `${runs.length} combinations: ${shown.map(([name, count]) => `${count} ${name}`).join(', ')}`;
}

/** A table that is redrawn in place on a terminal, and stays there. In a pipe nothing is drawn. */
export function createSweepView(
  context: Context,
  runs: readonly SweepRun[],
  columns: readonly Column<SweepRun>[],
): LiveView {
  if (!context.canRedraw) return { update: () => undefined, end: () => undefined };
  return createLiveView(context, (width) => {
    const shown = selectRows(runs, maxTableRows(context.stdout.rows, 5), rank);
    const hidden = runs.length - shown.length;
    return [
      ...terminalLines(shown, columns, { columns: width, style: context.style }),
      ...(hidden > 0 ? [context.style('dim', `… and ${hidden} more; all of them: the same command in a pipe`)] : []),
      summarize(runs),
    ];
  });
}

/** Jobs that failed or have not ended are shown rather than others. */
function rank(run: SweepRun): number {
  if (hasFailed(run)) return 0;
  if (run.job === null) return 2;
  return hasEnded(run) ? 3 : 1;
}
