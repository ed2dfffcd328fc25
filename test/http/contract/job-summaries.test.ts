import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Caller, Job } from '../../support/api.ts';
import { loadOpenApiContract, type Problem } from '../../support/contract.ts';
import { withDatabase } from '../../support/database.ts';
import { storeManyJobs } from '../../support/many-jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';

// GET /job-summaries/ and GET /admin/job-summaries/

interface Summary {
  job: Job;
  tags: string[];
  nodes: number;
  cores_per_node: number;
  started_at: string | null;
  outcome: string | null;
  charged_seconds: number | null;
}

interface Page {
  jobs: Summary[];
  next: string | null;
}

const user = '301330';
let server: TestServer;
let me: Caller;
let other: Caller;
let admin: Caller;
let finished: Job;

before(async () => {
  server = await startServer();
  const contract = await loadOpenApiContract(server);
  me = contract.callerFor(await server.token(user));
  admin = contract.callerFor(server.adminToken);
  other = contract.callerFor(await server.token('77'));
  await withDatabase(server.data, async (db) => {
    await storeManyJobs(db, { owner: user, hpc: 'hpc_two', project: 'proj_hpc_two_02', count: 25 });
    await storeManyJobs(db, { owner: user, hpc: 'hpc_one', project: 'proj_hpc_one_01', count: 2500 });
    await storeManyJobs(db, { owner: '77', hpc: 'hpc_one', project: 'proj_hpc_one_01', count: 30 });
  });
  const payload = { command: 'sleep 1; exit 3', core_number: '2', title: 'Überprüfung 100% "a"', tags: 'Sweep-17' };
  const { body } = await me.submit('/jobs/hpc_one/', payload);
  finished = await me.waitUntilFinished(body);
});
after(() => server.dispose());

const read = async (caller: Caller, query: string, path = '/job-summaries/') =>
  (await caller.get<Page>(`${path}?${query}`)).body;
const idsOf = ({ jobs }: Page) => jobs.map(({ job }) => job.id);

/** Reads all pages, and checks their size. */
async function readAllIds(caller: Caller, query: string, limit: number, path?: string): Promise<number[]> {
  const ids: number[] = [];
  for (let cursor = ''; ; ) {
    const page = await read(caller, `${query}&limit=${limit}${cursor}`, path);
    ids.push(...idsOf(page));
    if (page.next === null) return ids;
    assert.equal(page.jobs.length, limit);
    cursor = `&cursor=${page.next}`;
  }
}

describe('job summaries', () => {
  test('show the job with its tags, resources, start, outcome and charge', async () => {
    const { jobs } = await read(me, 'limit=1');
    const [{ job, started_at, charged_seconds, ...rest }] = jobs as [Summary];
    assert.deepEqual(job, finished);
    assert.deepEqual(rest, { tags: ['Sweep-17'], nodes: 1, cores_per_node: 2, outcome: 'failed' });
    assert.ok(Date.parse(started_at ?? '') >= Date.parse(finished.init_date));
    assert.ok(Number(charged_seconds) >= 2);
    const headers = { 'content-type': 'application/json', 'idempotency-key': 'a-refund' };
    const refund = JSON.stringify({ job_id: job.job_id, amount: 1, reason: 'it was our fault' });
    await admin.send('POST', '/admin/grants/hpc_one/proj_hpc_one_01/refunds/', headers, refund);
    assert.equal((await read(me, 'limit=1')).jobs[0]?.charged_seconds, Number(charged_seconds) - 1);
  });

  test('format runtimes as floats with a fraction', async () => {
    assert.match((await me.send('GET', '/job-summaries/?limit=2')).text, /"runtime":1\.0,/);
  });

  test('have no start, outcome and charge before the job has them', async () => {
    const { body } = await other.submit('/jobs/hpc_one/', { command: 'sleep 60', node_number: '1' });
    const [waiting] = (await read(other, 'limit=1')).jobs;
    assert.equal(waiting?.job.job_id, body.job_id);
    assert.deepEqual([waiting?.outcome, waiting?.charged_seconds], [null, null]);
    await other.send('POST', `/jobs/hpc_one/proj_hpc_one_01/${body.job_id}/cancel/`);
    await other.waitUntilFinished(body);
  });

  test('are 50 by default, newest first, and lead to all older jobs of the caller', async () => {
    const first = await read(me, '');
    assert.equal(first.jobs.length, 50);
    const all = (await me.get<Job[]>('/jobs/')).body.map(({ id }) => id).reverse();
    assert.deepEqual(idsOf(first), all.slice(0, 50));
    assert.deepEqual(await readAllIds(me, '', 200), all);
  });

  test('a full page leads nowhere if no older job follows', async () => {
    assert.equal((await readAllIds(me, 'hpc=hpc_two', 5)).length, 25);
    const last = await read(me, 'hpc=hpc_two&limit=25');
    assert.deepEqual([last.jobs.length, last.next], [25, null]);
  });

  for (const filter of [
    'stage=RUNNING',
    'terminal=false',
    'failed=true',
    'title=title%203',
    'tag=Sweep-17',
    'since=2026-01-01T00:00:00Z',
  ]) {
    test(`filter like lists of jobs: ${filter}`, async () => {
      const listed = (await me.get<Job[]>(`/jobs/hpc_one/?${filter}`)).body.map(({ id }) => id);
      assert.deepEqual(await readAllIds(me, `hpc=hpc_one&${filter}`, 7), listed.reverse());
    });
  }
});

describe('a search', () => {
  for (const text of ['überprüfung', 'ÜFUNG 100%', '100% "', 'sweep-17', 'EEP', ' sweep ']) {
    test(`finds titles and tags in upper and lower case: ${text}`, async () => {
      const found = await read(me, `search=${encodeURIComponent(text)}`);
      assert.deepEqual([idsOf(found), found.next], [[finished.id], null]);
    });
  }

  test('finds job ids, also by their end', async () => {
    const found = await read(me, `search=${finished.job_id.slice(-12).toLowerCase()}`);
    assert.deepEqual(idsOf(found), [finished.id]);
    assert.equal((await read(me, 'search=many-25')).jobs[0]?.job.job_id, 'MANY-2525');
  });

  test('finds nothing in commands', async () => {
    assert.deepEqual(await read(me, 'search=exit%203'), { jobs: [], next: null });
  });

  test('goes on where its page ended, with the other filters', async () => {
    const expected = (await me.get<Job[]>('/jobs/?terminal=true')).body.filter(({ title }) => title.includes('le 3'));
    const ids = expected.map(({ id }) => id).reverse();
    assert.ok(ids.length > 200);
    assert.deepEqual(await readAllIds(me, 'search=LE%203&terminal=true', 40), ids);
  });

  test('of one space is none', async () => {
    assert.equal((await read(me, 'search=%20&limit=5')).jobs.length, 5);
  });
});

describe('the beginning of a job id', () => {
  test('finds a job, in upper and lower case', async () => {
    for (const beginning of [finished.job_id, finished.job_id.slice(0, 13).toLowerCase()])
      assert.deepEqual(idsOf(await read(me, `job_id=${beginning}`)), [finished.id]);
    assert.deepEqual(await read(me, 'job_id=many-2525x'), { jobs: [], next: null });
    // Not the middle of an id, and no pattern.
    for (const text of [finished.job_id.slice(1), 'any-', '_', 'MAN_-25'])
      assert.deepEqual((await read(me, `job_id=${text}`)).jobs, []);
  });

  // More than a thousand ids begin with MANY-1, fewer with MANY-2.
  for (const beginning of ['many-1', 'many-2', 'm'])
    test(`finds all jobs of the caller with it by pages, newest first: ${beginning}`, async () => {
      const expected = (await me.get<Job[]>('/jobs/?terminal=true')).body.filter(({ job_id }) =>
        job_id.toLowerCase().startsWith(beginning),
      );
      assert.ok(expected.length > 500);
      const ids = await readAllIds(me, `job_id=${beginning}&terminal=true`, 200);
      assert.deepEqual(ids, expected.map(({ id }) => id).reverse());
    });

  test('and other filters apply together', async () => {
    for (const filter of ['title=title%2044', 'search=TLE%2044', 'title=title%2044&search=44']) {
      const ids = await readAllIds(me, `job_id=MANY-2&${filter}`, 5);
      assert.ok(ids.length > 5 && ids.every((id) => id % 50 === 44 && String(id).startsWith('2')), filter);
    }
  });

  test('finds no jobs of others, except for administrators', async () => {
    const beginning = `job_id=${finished.job_id.slice(0, 13)}`;
    assert.deepEqual(await read(other, beginning), { jobs: [], next: null });
    assert.deepEqual(idsOf(await read(admin, beginning, '/admin/job-summaries/')), [finished.id]);
    assert.deepEqual(await read(admin, `${beginning}&user_id=77`, '/admin/job-summaries/'), { jobs: [], next: null });
    assert.equal((await readAllIds(other, 'job_id=MANY-', 50)).length, 30);
  });
});

describe('job summaries of others', () => {
  const path = '/admin/job-summaries/';

  test('are not listed', async () => {
    const owners = new Set((await read(other, 'limit=200')).jobs.map(({ job }) => job.owner));
    assert.deepEqual([...owners], ['77']);
    assert.deepEqual((await read(other, 'search=sweep-17')).jobs, []);
    assert.equal((await me.get(path)).status, 403);
  });

  test('are listed for administrators, of all users or of one', async () => {
    const owners = new Set((await read(admin, 'limit=200', path)).jobs.map(({ job }) => job.owner));
    assert.deepEqual(owners, new Set(['77', user]));
    const ids = await readAllIds(admin, `user_id=${user}&hpc=hpc_two`, 20, path);
    assert.deepEqual(ids, await readAllIds(me, 'hpc=hpc_two', 20));
    assert.equal((await admin.get(`${path}?user_id=404`)).status, 404);
  });
});

describe('a wrong query', () => {
  for (const [query, field] of [
    ['limit=0', 'limit'],
    ['limit=201', 'limit'],
    ['cursor=xyz', 'cursor'],
    [`cursor=${Buffer.from('after:1').toString('base64url')}`, 'cursor'],
    [`search=${'x'.repeat(201)}`, 'search'],
    ['search=a&search=b', 'search'],
    ['job_id=', 'job_id'],
    ['job_id=a%25', 'job_id'],
    [`job_id=${'A'.repeat(101)}`, 'job_id'],
    ['stage=NONE', 'stage'],
    ['project_name=proj_hpc_one_01', 'project_name'],
    ['user_id=1', 'user_id'],
  ] as const) {
    test(`is 400: ${query.slice(0, 40)}`, async () => {
      const { status, body } = await me.get<Problem>(`/job-summaries/?${query}`);
      assert.equal(status, 400);
      assert.deepEqual(
        body.errors?.map((error) => error.field),
        [field],
      );
    });
  }
});
