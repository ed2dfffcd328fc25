import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { ApiResponse, Caller, Job } from '../../support/api.ts';
import { loadOpenApiContract, type Problem } from '../../support/contract.ts';
import { withDatabase } from '../../support/database.ts';
import { jobPath } from '../../support/jobs.ts';
import { storeManyJobs } from '../../support/many-jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';

let server: TestServer;
let me: Caller;
let other: Caller;
let admin: Caller;

before(async () => {
  server = await startServer();
  const contract = await loadOpenApiContract(server);
  me = contract.callerFor(server.userToken);
  admin = contract.callerFor(server.adminToken);
  other = contract.callerFor(await server.token('77'));
  const mine = (await me.get<{ user: string }[]>('/quotas/')).body[0]?.user ?? '';
  await withDatabase(server.data, async (db) => {
    await storeManyJobs(db, { owner: mine, hpc: 'hpc_one', project: 'proj_hpc_one_01', count: 1200 });
    await storeManyJobs(db, { owner: '77', hpc: 'hpc_one', project: 'proj_hpc_one_01', count: 30 });
    await storeManyJobs(db, { owner: mine, hpc: 'hpc_two', project: 'proj_hpc_two_02', count: 25 });
  });
});
after(() => server.dispose());

const idsOf = (response: ApiResponse<Job[]>) => response.body.map((job) => job.id);

/** Returns the target of the `Link` to the next page, or undefined on the last page. */
function nextPage(response: ApiResponse): string | undefined {
  const link = response.headers.get('link');
  if (link === null) return undefined;
  const [, target] = /^<([^>]+)>; rel="next"$/.exec(link) ?? [];
  assert.ok(target, link);
  return target;
}

async function readAllPages(caller: Caller, path: string): Promise<{ ids: number[]; sizes: number[] }> {
  const ids: number[] = [];
  const sizes: number[] = [];
  for (let next: string | undefined = path; next !== undefined; ) {
    const page: ApiResponse<Job[]> = await caller.get<Job[]>(next);
    assert.equal(page.status, 200);
    ids.push(...idsOf(page));
    sizes.push(page.body.length);
    next = nextPage(page);
  }
  return { ids, sizes };
}

describe('pages', () => {
  test('a list without query parameters is the whole array, without a Link', async () => {
    const response = await me.get<Job[]>('/jobs/');
    assert.equal(response.body.length, 1225);
    assert.equal(response.headers.get('link'), null);
    assert.deepEqual(
      idsOf(response),
      idsOf(response).toSorted((a, b) => a - b),
    );
  });

  for (const path of ['/jobs/', '/jobs/hpc_one/', '/jobs/hpc_one/proj_hpc_one_01/', '/jobs/hpc_two']) {
    test(`following Link reads all of ${path}, page by page`, async () => {
      const { ids, sizes } = await readAllPages(me, `${path}?limit=10`);
      assert.deepEqual(ids, idsOf(await me.get<Job[]>(path)));
      assert.ok(sizes.slice(0, -1).every((size) => size === 10));
    });
  }

  test('a full page has no Link if no more jobs follow', async () => {
    const { sizes } = await readAllPages(me, '/jobs/hpc_two/?limit=5');
    assert.deepEqual(sizes, [5, 5, 5, 5, 5]);
  });

  test('the next page keeps the filters', async () => {
    const { ids, sizes } = await readAllPages(me, '/jobs/?limit=5&title=title%203&terminal=true');
    assert.equal(ids.length, 25);
    assert.deepEqual(sizes, [5, 5, 5, 5, 5]);
  });

  test('a cursor without a limit returns all remaining jobs', async () => {
    const first = await me.get<Job[]>('/jobs/?limit=7');
    const cursor = new URL(nextPage(first) ?? '', server.url).searchParams.get('cursor');
    const rest = await me.get<Job[]>(`/jobs/?cursor=${cursor}`);
    assert.equal(rest.body.length, 1225 - 7);
  });

  test('a cursor of another user does not reveal their jobs', async () => {
    const first = await me.get<Job[]>('/jobs/?limit=5');
    const theirs = await other.get<Job[]>(nextPage(first) ?? '');
    assert.ok(theirs.body.every((job) => job.owner === '77'));
  });

  test('administrators can page through the jobs of one user and of all users', async () => {
    assert.equal((await readAllPages(admin, '/admin/jobs/?user_id=77&limit=8')).ids.length, 30);
    assert.equal((await readAllPages(admin, '/admin/jobs/?limit=1000')).ids.length, 1255);
    assert.equal(
      (await readAllPages(admin, '/admin/jobs/?hpc=hpc_one&project_name=proj_hpc_one_01&limit=500')).ids.length,
      1230,
    );
  });
});

describe('filters', () => {
  const all = async () => (await me.get<Job[]>('/jobs/')).body;

  test('stage, with the stage names of the system', async () => {
    const running = await me.get<Job[]>('/jobs/hpc_one/?stage=RUNNING');
    assert.equal(running.body.length, 12);
    assert.ok(running.body.every((job) => job.stage === 'RUNNING'));
    assert.deepEqual((await me.get<Job[]>('/jobs/hpc_two/?stage=QUEUE')).body, []);
  });

  test('failed and terminal, true and false', async () => {
    const count = (await all()).length;
    for (const [filter, some] of [
      ['failed', 3],
      ['terminal', count - 12],
    ] as const) {
      const yes = (await me.get<Job[]>(`/jobs/?${filter}=true`)).body.length;
      const no = (await me.get<Job[]>(`/jobs/?${filter}=false`)).body.length;
      assert.deepEqual([yes, no], [some, count - some]);
    }
  });

  test('title, by exact match', async () => {
    const found = (await me.get<Job[]>('/jobs/?title=title%207')).body;
    assert.ok(found.length > 0 && found.every((job) => job.title === 'title 7'));
    assert.deepEqual((await me.get<Job[]>('/jobs/?title=title')).body, []);
  });

  test('since, by time of submission', async () => {
    const { body: job } = await me.submit('/jobs/hpc_one/', { command: 'true', title: 'now' });
    assert.deepEqual(idsOf(await me.get<Job[]>(`/jobs/?since=${job.init_date}`)), [job.id]);
    assert.deepEqual((await me.get<Job[]>('/jobs/?since=2999-01-01')).body, []);
    assert.equal((await me.get<Job[]>('/jobs/?since=1970-01-01')).body.length, 1226);
    await me.waitUntilFinished(job);
  });

  test('filters use the current state of a job', async () => {
    const { body: job } = await me.submit('/jobs/hpc_one/', { command: 'exit 3', title: 'follow' });
    assert.deepEqual(idsOf(await me.get<Job[]>('/jobs/?title=follow&failed=false')), [job.id]);
    await me.waitUntilFinished(job);
    for (const query of ['title=follow&failed=true', 'title=follow&terminal=true&stage=FAILED']) {
      assert.deepEqual(idsOf(await me.get<Job[]>(`/jobs/?${query}`)), [job.id], query);
    }
    await me.send('DELETE', jobPath(job));
    assert.deepEqual(idsOf(await me.get<Job[]>('/jobs/?stage=DELETED')), [job.id]);
  });
});

describe('tags', () => {
  const paths = ['/jobs/', '/jobs/hpc_one/', '/jobs/hpc_one/proj_hpc_one_01/'];
  let tagged: Record<'a' | 'ab' | 'theirs', Job>;

  before(async () => {
    const submit = async (caller: Caller, tags: unknown) =>
      (await caller.submit('/jobs/hpc_one/', { command: 'true', runtime: 0.01, tags })).body;
    tagged = {
      a: await submit(me, 'sweep-1'),
      ab: await submit(me, ['sweep-1', 'fast']),
      theirs: await submit(other, 'sweep-1 fast,slow'),
    };
    await submit(me, 'sweep-10');
    await submit(me, []);
  });

  test('are not a part of the Job object', () => {
    assert.ok(!('tags' in tagged.a));
    assert.deepEqual(Object.keys(tagged.a), Object.keys(tagged.theirs));
  });

  test('select the jobs that have all of them, in all lists', async () => {
    for (const path of paths) {
      assert.deepEqual(idsOf(await me.get(`${path}?tag=sweep-1`)), [tagged.a.id, tagged.ab.id]);
      assert.deepEqual(idsOf(await me.get(`${path}?tag=sweep-1&tag=fast`)), [tagged.ab.id]);
      assert.deepEqual(idsOf(await me.get(`${path}?tag=fast&terminal=true&since=2020-01-01&tag=slow`)), []);
      assert.deepEqual(idsOf(await me.get(`${path}?tag=unused`)), []);
    }
    const { a, ab, theirs } = tagged;
    assert.deepEqual(idsOf(await admin.get('/admin/jobs/?tag=sweep-1')), [a.id, ab.id, theirs.id]);
    assert.deepEqual(idsOf(await admin.get('/admin/jobs/?user_id=77&tag=slow')), [theirs.id]);
    assert.deepEqual(idsOf(await me.get('/jobs/hpc_two/?tag=sweep-1')), []);
  });

  test('the Link keeps a question mark in a filter', async () => {
    for (let count = 0; count < 2; count++) await me.submit('/jobs/hpc_one/', { command: 'true', title: 'why?' });
    assert.equal((await readAllPages(me, '/jobs/?title=why?&limit=1')).ids.length, 2);
  });

  test('select on every page, and the Link keeps them', async () => {
    const { ids, sizes } = await readAllPages(me, '/jobs/?tag=sweep-1&limit=1');
    assert.deepEqual(
      [ids, sizes],
      [
        [tagged.a.id, tagged.ab.id],
        [1, 1],
      ],
    );
  });

  test('a list that is read again has the jobs that were submitted since, also with its ETag', async () => {
    const path = '/jobs/?tag=again';
    const first = await me.get<Job[]>(path);
    assert.deepEqual(first.body, []);
    const { body: job } = await me.submit('/jobs/hpc_one/', { command: 'true', runtime: 0.01, tags: 'again' });
    const second = await me.send('GET', path, { 'if-none-match': first.headers.get('etag') ?? '' });
    assert.deepEqual(idsOf(second as ApiResponse<Job[]>), [job.id]);
    await me.submit('/jobs/hpc_one/', { command: 'true', runtime: 0.01 });
    assert.deepEqual(idsOf(await me.get(path)), [job.id]);
  });

  test('that are not valid are rejected, in a Payload and in a query', async () => {
    const long = 'x'.repeat(33);
    for (const tags of [7, null, {}, [1], [''], ['two words'], 'a/b', '-a', long, Array(17).fill('x')]) {
      const { status, body } = await me.submit('/jobs/hpc_one/', { command: 'true', tags });
      const { errors } = body as unknown as Problem;
      assert.deepEqual([status, errors?.map(({ field }) => field)], [400, ['tags']], JSON.stringify(tags));
    }
    const many = Array.from({ length: 17 }, (_, index) => `tag=t${index}`).join('&');
    for (const query of ['tag=', 'tag=a%20b', `tag=${long}`, many]) {
      const { status, body } = await me.get<Problem>(`/jobs/?${query}`);
      assert.deepEqual([status, body.errors?.map(({ field }) => field)], [400, ['tag']], query);
    }
  });

  test('are accepted by a quote, as by a submission', async () => {
    const quote = (tags: string) =>
      me.send('POST', '/quotes/hpc_one/', { payload: JSON.stringify({ command: 'true', tags }) });
    assert.deepEqual([(await quote('a b')).status, (await quote('a/b')).status], [200, 400]);
  });
});

describe('an invalid query', () => {
  const invalidQueries: [query: string, field: string, message: RegExp][] = [
    ['limit=0', 'limit', /at least 1/],
    ['limit=-5', 'limit', /at least 1/],
    ['limit=1001', 'limit', /at most 1000/],
    ['limit=ten', 'limit', /whole number/],
    ['limit=', 'limit', /whole number/],
    ['limit=1.5', 'limit', /whole number/],
    ['limit=1&limit=2', 'limit', /once/],
    ['cursor=', 'cursor', /Link/],
    ['cursor=12', 'cursor', /Link/],
    ['cursor=YWZ0ZXI6LTE', 'cursor', /Link/],
    [`cursor=${Buffer.from('after:007').toString('base64url')}`, 'cursor', /Link/],
    ['cursor=%00', 'cursor', /Link/],
    ['stage=RUNING', 'stage', /QUEUED.*QUEUE/],
    ['stage=running', 'stage', /RUNNING/],
    ['stage=', 'stage', /RUNNING/],
    ['failed=1', 'failed', /true or false/],
    ['failed=TRUE', 'failed', /true or false/],
    ['terminal=yes', 'terminal', /true or false/],
    ['since=yesterday', 'since', /2026-01-31/],
    ['since=2026-02-31', 'since', /2026-01-31/],
    ['since=0', 'since', /2026-01-31/],
    ['title=a&title=b', 'title', /once/],
  ];
  for (const [query, field, message] of invalidQueries) {
    test(`?${query} is 400 and says what to do`, async () => {
      for (const [caller, path] of [
        [me, '/jobs/'],
        [admin, '/admin/jobs/'],
      ] as const) {
        const response = await caller.get<Problem>(`${path}?${query}`);
        assert.equal(response.status, 400);
        assert.equal(response.body.code, 'bad_request');
        assert.deepEqual(
          response.body.errors?.map((error) => error.field),
          [field],
        );
        assert.match(response.body.detail, message);
      }
    });
  }

  test('a stage of another system is 400 on this one', async () => {
    const response = await me.get<Problem>('/jobs/hpc_one/?stage=QUEUE');
    assert.equal(response.status, 400);
    assert.doesNotMatch(response.body.detail, /COMPLETED/);
  });

  test('with several errors reports all of them', async () => {
    const response = await me.get<Problem>('/jobs/?limit=x&failed=x&since=x');
    assert.equal(response.body.errors?.length, 3);
  });
});
