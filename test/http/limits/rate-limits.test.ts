import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type ApiResponse, type Caller, createCaller, type Job } from '../../support/api.ts';
import { assertProblem } from '../../support/problems.ts';
import { bearerHeader, formatRequestHead, openRawConnection } from '../../support/raw-http.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';

const limits = { userRequests: 80, addressRequests: 40 };
const tokenRequests = 40;
const rateWindowMs = 60_000;
const uploads = 3;
let server: TestServer;
let number = 500;

before(async () => {
  server = await startServer({ config: { ...shippedConfig(), limits }, tuning: { rateWindowMs } });
});
after(() => server.dispose());

/** Creates a user with unused quotas, and returns a caller for each of its tokens. */
async function newUser(tokens = 1): Promise<Caller[]> {
  const id = String(number++);
  const callers: Caller[] = [];
  for (let index = 0; index < tokens; index++) callers.push(createCaller(server.url, await server.token(id)));
  return callers;
}

async function times(count: number, act: () => Promise<ApiResponse>): Promise<ApiResponse[]> {
  const responses: ApiResponse[] = [];
  for (let index = 0; index < count; index++) responses.push(await act());
  return responses;
}

const passed = (responses: ApiResponse[]) => responses.filter((response) => response.status !== 429);
const remaining = (response: ApiResponse) => Number(/;r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1]);

/** The largest number of requests that a quota allows since `startedMs`, including its refill. */
function maxAllowed(quota: number, startedMs: number): number {
  return quota + Math.ceil(((performance.now() - startedMs) / rateWindowMs) * quota) + 1;
}

describe('every response', () => {
  test('contains the policies and the remaining requests of the strictest one', async () => {
    const [me] = await newUser();
    const first = (await me?.get('/quotas/')) as ApiResponse;
    assert.equal(first.headers.get('ratelimit-policy'), '"user";q=80;w=60, "token";q=40;w=60');
    assert.match(first.headers.get('ratelimit') ?? '', /^"token";r=39;t=\d+$/);
    const second = (await me?.get('/nothing/here/')) as ApiResponse;
    assert.equal(second.headers.get('ratelimit-policy'), '"address";q=40;w=60', 'an unknown path counts by address');
    const third = (await me?.get('/jobs/hpc_none/')) as ApiResponse;
    assert.equal(third.status, 404);
    assert.ok(remaining(third) <= 39);
  });
});

describe('too many requests', () => {
  test('with one token are 429 with Retry-After, and do not affect other tokens of the user', async () => {
    const [loop, other] = (await newUser(2)) as [Caller, Caller];
    const started = performance.now();
    const responses = await times(70, () => loop.get('/jobs/'));
    assert.ok(passed(responses).length >= tokenRequests);
    assert.ok(passed(responses).length <= maxAllowed(tokenRequests, started));
    const rejected = responses.find((response) => response.status === 429);
    assert.ok(rejected);
    assertProblem(rejected, { status: 429, code: 'too_many_requests', message: /Retry-After/ });
    assert.match(rejected.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
    assert.match(rejected.headers.get('ratelimit') ?? '', /^"token";r=0;t=\d+$/);
    assert.equal((await other.get('/jobs/')).status, 200);
  });

  test('of one user are 429, even with several tokens', async () => {
    const tokens = await newUser(3);
    const started = performance.now();
    const responses = (await Promise.all(tokens.map((caller) => times(40, () => caller.get('/jobs/'))))).flat();
    assert.ok(passed(responses).length >= limits.userRequests);
    assert.ok(passed(responses).length <= maxAllowed(limits.userRequests, started));
    assert.ok(responses.some((response) => /^"user";r=0/.test(response.headers.get('ratelimit') ?? '')));
  });

  test('of one user do not affect another user', async () => {
    const [[loop], [other]] = (await Promise.all([newUser(), newUser()])) as [[Caller], [Caller]];
    let over = false;
    const looping = (async () => {
      const responses: ApiResponse[] = [];
      while (!over) responses.push(...(await Promise.all(Array.from({ length: 10 }, () => loop.get('/jobs/')))));
      return responses;
    })();
    const mine = await times(tokenRequests - 5, () => other.get('/quotas/'));
    const job = await other.submit('/jobs/hpc_one/', { command: 'true' });
    over = true;
    assert.deepEqual([...new Set(mine.map((response) => response.status)), job.status], [200, 201]);
    assert.ok((await looping).some((response) => response.status === 429));
  });

  test('are allowed again after Retry-After', async () => {
    const [me] = (await newUser()) as [Caller];
    const responses = await times(70, () => me.get('/jobs/'));
    assert.ok(responses.some((response) => response.status === 429));
    await until('requests are allowed again', async () => ((await me.get('/jobs/')).status === 200 ? true : undefined));
  });

  test('without a valid token are 429 by address, and do not affect callers with a token', async () => {
    const [me] = (await newUser()) as [Caller];
    for (const anonymous of [createCaller(server.url, null), createCaller(server.url, 'bursar_wrong')]) {
      const responses = await times(60, () => anonymous.get('/jobs/'));
      const statuses = new Set(responses.map((response) => response.status));
      assert.ok(statuses.has(429));
      assert.ok([...statuses].every((status) => status === 401 || status === 429));
      const rejected = responses.find((response) => response.status === 429);
      assertProblem(rejected as ApiResponse, { status: 429, code: 'too_many_requests' });
    }
    assert.equal((await me.get('/jobs/')).status, 200);
    assert.equal((await createCaller(server.url, null).get('/livez')).status, 200);
  });
});

test('a request to an unknown path is 404 and counts by address, whatever its body', async () => {
  const headers = { 'content-type': 'application/json' };
  const send = () => createCaller(server.url, null).send('POST', '/nowhere/', headers, '{"invalid":');
  const statuses = new Set((await times(60, send)).map((response) => response.status));
  // Other tests have used a part of the limit.
  assert.ok(statuses.has(429));
  assert.ok(
    [...statuses].every((status) => status === 404 || status === 429),
    String([...statuses]),
  );
  // The limit refills while the requests are sent, so that one request alone could be allowed.
  const undecodable = await times(60, () => createCaller(server.url, null).get('/%'));
  const others = new Set(undecodable.map((response) => response.status));
  assert.ok(others.delete(429), 'a path that cannot be decoded counts too');
  assert.deepEqual(
    [...others].filter((status) => status !== 404),
    [],
  );
});

describe('concurrent uploads', () => {
  const path = '/jobs/hpc_one/';
  let roomy: TestServer;
  before(async () => {
    roomy = await startServer({ config: { ...shippedConfig(), limits: { uploads } } });
  });
  after(() => roomy.dispose());
  const slow = async (token: string) => {
    const connection = await openRawConnection(roomy.url);
    const headers: [string, string][] = [
      ['content-disposition', 'attachment; filename=job.zip'],
      ['payload', '{"command": "true"}'],
      ['content-length', '1000'],
    ];
    await connection.write(
      formatRequestHead({ method: 'POST', path, headers: [...headers, bearerHeader(token)] }),
      'PK',
    );
    return connection;
  };

  test('are limited for each user, and no longer count when they have ended', async () => {
    const token = await roomy.token('900');
    const [me, other] = [createCaller(roomy.url, token), createCaller(roomy.url, await roomy.token('901'))];
    const connections = await Promise.all(Array.from({ length: uploads }, () => slow(token)));
    const rejected = await until('all uploads are in progress', async () => {
      const response = await me.submit(path, { command: 'true' });
      return response.status === 429 ? response : undefined;
    });
    assertProblem(rejected, { status: 429, code: 'too_many_requests', message: /Wait/ });
    assert.match(rejected.headers.get('retry-after') ?? '', /^\d+$/);
    assert.equal((await me.get<Job[]>('/jobs/')).status, 200);
    assert.equal((await other.submit(path, { command: 'true' })).status, 201);
    for (const connection of connections) connection.destroy();
    await until('the uploads no longer count', async () =>
      (await me.submit(path, { command: 'true' })).status === 201 ? true : undefined,
    );
  });
});
