import assert from 'node:assert/strict';
import { test } from 'node:test';
import { QueryClient, QueryObserver } from '@tanstack/react-query';
import type { BursarEvent, Job, JobSummary, JobSummaryPage } from '#client';
import { type JobPageFilter, jobPageKey, updateJobPages } from '../../web/src/client/job-pages.ts';

const job: Job = {
  id: 2,
  job_id: 'A',
  owner: '301330',
  project: 1,
  project_hpc: 'HPC_ONE',
  project_name: 'proj_hpc_one_01',
  title: 'Title',
  runtime: 1,
  stage: 'QUEUED',
  terminal_stage: false,
  failed: false,
  init_date: '2026-01-31T12:00:00Z',
  end_date: null,
};
const running = { ...job, stage: 'RUNNING' };
const ended = { ...job, stage: 'FAILED', terminal_stage: true, failed: true, end_date: '2026-01-31T12:01:00Z' };
const summary: JobSummary = {
  job,
  tags: [],
  nodes: 1,
  cores_per_node: 1,
  started_at: null,
  outcome: null,
  charged_seconds: null,
};
const at = '2026-01-31T12:00:30.000Z';

function eventOf(type: BursarEvent['type'], changed: Job, data: BursarEvent['data'] = {}): BursarEvent {
  return { id: 1, type, at, job: changed, data };
}

/** A page of jobs on the screen, with one job. Returns the page after the events, and whether it must be read again. */
function apply(events: readonly BursarEvent[], filter: JobPageFilter = {}, jobs: JobSummary[] = [summary]) {
  const client = new QueryClient();
  const queryKey = jobPageKey('own', filter);
  client.setQueryData(queryKey, { jobs, next: null } satisfies JobSummaryPage);
  const observer = new QueryObserver(client, { queryKey, queryFn: () => ({ jobs, next: null }), staleTime: Infinity });
  const unsubscribe = observer.subscribe(() => undefined);
  const outdated = events.flatMap((event) => updateJobPages(client, event));
  const page = client.getQueryData<JobSummaryPage>(queryKey);
  unsubscribe();
  client.clear();
  return { row: page?.jobs[0], isOutdated: outdated.length > 0 };
}

test('events change the row of a job without reading the page again', () => {
  const started = apply([eventOf('job.running', running)]);
  assert.deepEqual(started, { row: { ...summary, job: running, started_at: at }, isOutdated: false });
  const data = { outcome: 'failed', charged_seconds: 30, elapsed_seconds: 30 } as const;
  const { row, isOutdated } = apply([eventOf('job.ended', ended, data)]);
  // It was never seen running: the start follows from the end.
  const expected = { ...summary, job: ended, started_at: at, outcome: 'failed', charged_seconds: 30 };
  assert.deepEqual({ row, isOutdated }, { row: expected, isOutdated: false });
});

test('an old event, which arrives after the page was read, does not change a row back', () => {
  const endedRow = { ...summary, job: ended, started_at: at };
  const events = [eventOf('job.queued', job), eventOf('job.running', running)];
  assert.deepEqual(apply(events, {}, [endedRow]).row, endedRow);
  const runningRow = { ...summary, job: running, started_at: at };
  assert.deepEqual(apply([eventOf('job.queued', job)], {}, [runningRow]).row, runningRow);
});

test('the page is read again when a job enters or leaves it', () => {
  const another = { ...job, id: 3, job_id: 'B' };
  assert.equal(apply([eventOf('job.accepted', another)]).isOutdated, true);
  assert.equal(apply([eventOf('job.accepted', another)], { hpc: 'hpc_two' }).isOutdated, false);
  assert.equal(apply([eventOf('job.accepted', another)], { cursor: 'x' }).isOutdated, false, 'an older page');
  assert.equal(apply([eventOf('job.running', { ...running, id: 3 })]).isOutdated, false);
  assert.equal(apply([eventOf('job.ended', ended)], { state: 'active' }).isOutdated, true);
  assert.equal(apply([eventOf('job.ended', { ...ended, id: 3 })], { state: 'failed' }, []).isOutdated, true);
});

test('a page whose last read failed is read again, even if an event changes one of its rows', async () => {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const queryKey = jobPageKey('own', {});
  client.setQueryData(queryKey, { jobs: [summary], next: null } satisfies JobSummaryPage);
  const queryFn = () => Promise.reject(new Error('no connection'));
  const observer = new QueryObserver(client, { queryKey, queryFn, staleTime: Infinity });
  const unsubscribe = observer.subscribe(() => undefined);
  await client.invalidateQueries({ queryKey });
  assert.deepEqual(updateJobPages(client, eventOf('job.running', running)), [queryKey]);
  unsubscribe();
  client.clear();
});
