import type { JobSummary } from '@bursar/client';
import { type PointerEvent, useEffect, useState } from 'react';

interface HeldRows {
  listKey: string;
  rows: readonly JobSummary[];
}

/**
 * Keeps the rows in their places while the mouse is over them: nobody wants to click the row that has just moved there. The
 * rows themselves stay up to date. Rows that wait are counted, and shown by `showNew` or when the mouse leaves.
 */
export function useSteadyRows(listKey: string, jobs: readonly JobSummary[]) {
  const [stored, setStored] = useState<HeldRows>();
  const held = stored?.listKey === listKey ? stored : undefined;
  const rows = held === undefined ? jobs : mergeRows(held.rows, jobs);

  useEffect(() => {
    setStored((previous) =>
      previous?.listKey === listKey ? { listKey, rows: mergeRows(previous.rows, jobs) } : undefined,
    );
  }, [listKey, jobs]);

  const shownIds = new Set(rows.map(({ job }) => job.id));
  return {
    rows,
    newCount: jobs.filter(({ job }) => !shownIds.has(job.id)).length,
    showNew: () => setStored(undefined),
    handlers: {
      onPointerMove: ({ pointerType }: PointerEvent) => {
        if (held === undefined && pointerType === 'mouse') setStored({ listKey, rows });
      },
      onPointerLeave: () => setStored(undefined),
    },
  };
}

/** The held rows, with their newest values. */
export function mergeRows(held: readonly JobSummary[], jobs: readonly JobSummary[]): readonly JobSummary[] {
  const current = new Map(jobs.map((summary) => [summary.job.id, summary]));
  return held.map((summary) => current.get(summary.job.id) ?? summary);
}
