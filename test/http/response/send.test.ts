import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type ApiResponse, type Caller, createCaller, type Job } from '../../support/api.ts';
import { runBursar } from '../../support/command-line.ts';
import { queryDatabase } from '../../support/database.ts';
import { bashZip, cancelJob, jobPath } from '../../support/jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

let server: TestServer;
let me: Caller;
let admin: Caller;
let job: Job;
let user: string;

before(async () => {
  server = await startServer();
  me = createCaller(server.url, server.userToken);
  admin = createCaller(server.url, server.adminToken);
  job = (await me.submit('/jobs/hpc_one/', { command: 'true' })).body;
  user = job.owner;
  await me.waitUntilFinished(job);
});
after(() => server.dispose());

const tagOf = (response: ApiResponse) => response.headers.get('etag') ?? '';
const getIfNoneMatch = (caller: Caller, path: string, ifNoneMatch: string, method = 'GET') =>
  caller.send(method, path, { 'if-none-match': ifNoneMatch });

/** Every path that has an ETag, with a caller who may read it. */
const taggedPaths = (): [path: string, caller: Caller][] => [
  ['/jobs/', me],
  ['/jobs/hpc_one/', me],
  ['/jobs/hpc_one/proj_hpc_one_01/', me],
  ['/jobs/?limit=1&failed=false', me],
  ['/job-summaries/?limit=5', me],
  [jobPath(job), me],
  ['/quotas/', me],
  ['/quotas/hpc_one/', me],
  ['/quotas/hpc_one/proj_hpc_one_01/', me],
  ['/admin/jobs/', admin],
  [`/admin/jobs/?user_id=${user}&hpc=hpc_one`, admin],
  ['/admin/job-summaries/', admin],
  ['/admin/quotas/', admin],
  [`/admin/quotas/${user}/`, admin],
  [`/admin/quotas/${user}/hpc_one/proj_hpc_one_01/`, admin],
];

describe('an ETag', () => {
  test('is sent with every job, list and quota, is strong, and stays the same while nothing changes', async () => {
    for (const [path, caller] of taggedPaths()) {
      const [first, second] = [await caller.get(path), await caller.get(path)];
      assert.match(tagOf(first), /^"[\w-]+"$/, path);
      assert.equal(tagOf(first), tagOf(second), path);
      assert.equal(first.text, second.text, path);
      assert.equal(first.headers.get('cache-control'), 'private, no-cache');
    }
  });

  test('in If-None-Match gets 304 without a body, in every form that RFC 9110 allows', async () => {
    for (const [path, caller] of taggedPaths()) {
      const tag = tagOf(await caller.get(path));
      for (const header of [tag, `W/${tag}`, `"other", ${tag}`, `"a,b" ,W/${tag}, "c"`, '*']) {
        const response = await getIfNoneMatch(caller, path, header);
        assert.deepEqual([response.status, response.text, tagOf(response)], [304, '', tag], `${path} ${header}`);
      }
      for (const header of ['"other"', tag.slice(1, -1), '', '"', 'W/']) {
        assert.equal((await getIfNoneMatch(caller, path, header)).status, 200, `${path} ${header}`);
      }
    }
  });

  test('works the same for HEAD and GET', async () => {
    for (const [path, caller] of taggedPaths()) {
      const get = await caller.get(path);
      const head = await caller.send('HEAD', path);
      assert.deepEqual([head.status, head.text, tagOf(head)], [200, '', tagOf(get)]);
      assert.equal((await getIfNoneMatch(caller, path, tagOf(get), 'HEAD')).status, 304);
    }
  });

  test('of one user does not match for another user', async () => {
    const other = createCaller(server.url, await server.token('4242'));
    for (const path of ['/jobs/', '/quotas/']) {
      const response = await getIfNoneMatch(other, path, tagOf(await me.get(path)));
      assert.equal(response.status, 200);
    }
    assert.equal((await getIfNoneMatch(other, jobPath(job), '*')).status, 404);
    assert.equal((await getIfNoneMatch(other, '/admin/jobs/', '*')).status, 403);
    assert.equal((await getIfNoneMatch(createCaller(server.url, null), '/jobs/', '*')).status, 401);
  });

  test('differs between users whose lists have the same version', async () => {
    const ids = ['4343', '4444'];
    const [first, second] = await Promise.all(ids.map(async (id) => createCaller(server.url, await server.token(id))));
    assert.ok(first && second);
    for (const caller of [first, second]) {
      const { body } = await caller.submit('/jobs/hpc_one/', { command: 'true' });
      await caller.waitUntilFinished(body);
    }
    await queryDatabase(server.data, 'update users set jobs_version = 1000 where id in (?, ?)', ids);
    for (const path of ['/jobs/', '/jobs/hpc_one/']) {
      const responses: ApiResponse<Job[]>[] = [await first.get<Job[]>(path), await second.get<Job[]>(path)];
      assert.deepEqual(
        responses.map(({ body }) => body.map((listed) => listed.owner)),
        ids.map((id) => [id]),
      );
      assert.equal(new Set(responses.map(tagOf)).size, 2);
    }
  });

  test('differs between the pages and filters of a list', async () => {
    const paths = ['/jobs/', '/jobs/?limit=5', '/jobs/?limit=6', '/jobs/?failed=true', '/jobs/hpc_one/'];
    const tags = await Promise.all(paths.map(async (path) => tagOf(await me.get(path))));
    assert.equal(new Set(tags).size, paths.length);
  });
});

/** Runs an action, and returns the paths whose ETag has changed, and those whose body has changed. */
async function findChanges(act: () => Promise<unknown>, paths: [string, Caller][]) {
  const before = await Promise.all(paths.map(([path, caller]) => caller.get(path)));
  await act();
  const changes = { tags: [] as string[], bodies: [] as string[] };
  for (const [index, [path, caller]] of paths.entries()) {
    const earlier = before[index] as ApiResponse;
    const response = await getIfNoneMatch(caller, path, tagOf(earlier));
    if (response.status === 200) changes.tags.push(path);
    if ((await caller.get(path)).text !== earlier.text) changes.bodies.push(path);
  }
  return changes;
}

describe('the ETag changes with the response after', () => {
  const grant = (path: string, body: object) =>
    admin.send(
      'POST',
      `/admin/grants/hpc_one/proj_hpc_one_01/${path}`,
      { 'content-type': 'application/json', 'idempotency-key': crypto.randomUUID() },
      JSON.stringify(body),
    );
  const acts: [what: string, act: () => Promise<unknown>, paths: string[]][] = [
    ['a submission', () => me.submit('/jobs/hpc_one/', { command: 'sleep 60' }), ['/jobs/', '/quotas/']],
    [
      'a cancellation',
      async () => {
        const [running] = (await me.get<Job[]>('/jobs/?terminal=false')).body;
        assert.ok(running);
        assert.equal((await cancelJob(me, running)).stage, 'CANCELED');
      },
      ['/jobs/', '/quotas/'],
    ],
    ['a deletion', () => me.send('DELETE', jobPath(job)), ['/jobs/']],
    [
      'a grant',
      async () => {
        const body = { kind: 'top_up', resource: 'time', amount: 5, source: 'new', reason: 'test' };
        assert.equal((await grant(`members/${user}/`, body)).status, 201);
      },
      ['/quotas/', '/quotas/hpc_one/proj_hpc_one_01/'],
    ],
    ['a new member', () => server.token('5151'), ['/admin/quotas/']],
    [
      'a grant by another process',
      () =>
        runBursar(
          ['grant', 'hpc_one/proj_hpc_one_01', '--user', user, '--time', '7', '--reason', 'a test'],
          server.environment,
        ),
      ['/quotas/'],
    ],
    [
      'the automatic start of a period',
      async () => {
        const { time_left: before } = await me.quota('hpc_one', 'proj_hpc_one_01');
        await until('a period is created before its start', async () => {
          const starts = new Date(Date.now() + 1500);
          const period = { starts: starts.toISOString(), member_seconds: 10, reserve_seconds: 0, reason: 'test' };
          if ((await grant('periods/', period)).status !== 201) return undefined;
          const { time_left: after } = await me.quota('hpc_one', 'proj_hpc_one_01');
          if (Date.now() < starts.getTime()) assert.equal(after, before);
          return true;
        });
        const begun = async () => ((await me.quota('hpc_one', 'proj_hpc_one_01')).time_left === 10 ? true : undefined);
        await until('the period begins', begun);
      },
      ['/quotas/'],
    ],
  ];
  for (const [what, act, expected] of acts) {
    test(what, async () => {
      const changes = await findChanges(act, taggedPaths());
      for (const path of expected) assert.ok(changes.bodies.includes(path), `${path} must change`);
      for (const path of changes.bodies) assert.ok(changes.tags.includes(path), `${path} has changed without its ETag`);
    });
  }

  test('but not after an action of another user', async () => {
    const other = createCaller(server.url, await server.token('6161'));
    const changes = await findChanges(
      () => me.submit('/jobs/hpc_two/', { tool: 'BASH' }, bashZip),
      [['/jobs/', other]],
    );
    assert.deepEqual(changes, { tags: [], bodies: [] });
  });
});
