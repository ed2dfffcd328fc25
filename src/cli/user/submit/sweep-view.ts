import type { Context } from '../context.ts';
import type { Colour } from '../terminal/style.ts';
import { type Column, terminalLines } from '../terminal/table.ts';
import { shorten } from '../terminal/text.ts';
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

/** A table that is redrawn in place on a terminal. In a pipe nothing is drawn. */
export interface SweepView {
  update(): void;
  /** Removes the table, so that the final one can be printed. */
  end(): void;
}

const redrawMs = 100;

export function createSweepView(
  context: Context,
  runs: readonly SweepRun[],
  columns: readonly Column<SweepRun>[],
): SweepView {
  const { stdout, style } = context;
  if (!context.isTerminal) return { update: () => undefined, end: () => undefined };
  let drawnLines = 0;
  let timer: NodeJS.Timeout | undefined;

  function draw(): void {
    timer = undefined;
    const width = context.columns() ?? 80;
    const maxRows = Math.max(3, (stdout.rows ?? 24) - 4);
    const shown = selectRows(runs, maxRows);
    const hidden = runs.length - shown.length;
    const lines = [
      ...terminalLines(shown, columns, { columns: width, style }),
      ...(hidden > 0 ? [style('dim', `… and ${hidden} more`)] : []),
      shorten(summarize(runs), width),
    ];
    stdout.write(`${clear()}${lines.map((line) => `${line}\n`).join('')}`);
    drawnLines = lines.length;
  }

  /** Moves to the first line of the table and clears everything from there. */
  const clear = () => (drawnLines === 0 ? '' : `\u001b[${drawnLines}A\u001b[J`);

  return {
    update() {
      timer ??= setTimeout(draw, redrawMs);
    },
    end() {
      clearTimeout(timer);
      stdout.write(clear());
      drawnLines = 0;
    },
  };
}

/** Jobs that failed or have not ended are shown first; the order among them stays. */
function selectRows(runs: readonly SweepRun[], maxRows: number): readonly SweepRun[] {
  if (runs.length <= maxRows) return runs;
  const rank = (run: SweepRun) =>
    hasFailed(run) ? 0 : run.job !== null && !hasEnded(run) ? 1 : run.job === null ? 2 : 3;
  const chosen = new Set(runs.toSorted((a, b) => rank(a) - rank(b)).slice(0, maxRows));
  return runs.filter((run) => chosen.has(run));
}
