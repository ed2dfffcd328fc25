import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { verifyLedger } from '../../../src/store/ledger/verify-ledger.ts';
import { type ApiResponse, createCaller, type Job } from '../../support/api.ts';
import { withDatabase } from '../../support/database.ts';
import { isLongRun } from '../../support/long-run.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { createZip } from '../../support/zip.ts';

const rounds = isLongRun ? 10 : 3;
const clients = 4;
const maxLifetimeMs = 600;
/** Delay between the submissions of a client: each of its jobs is a process on this machine. */
const submitIntervalMs = 60;

describe('idempotent submissions to a server that is killed at random times', () => {
  const data = join(mkdtempSync(join(tmpdir(), 'bursar-once-')), 'data');
  const responses = new Map<string, ApiResponse<Job>>();
  let attempts = 0;
  let server: ServerProcess;
  let isOver = false;
  let jobs: Job[] = [];

  /** Submits jobs one after the other, each with its own key, and repeats each until it is accepted. */
  async function runClient(name: string, token: string, zip: Uint8Array): Promise<void> {
    for (let number = 0; !isOver; number++) {
      const key = `${name}-${number}`;
      for (let isAccepted = false; !isAccepted; ) {
        attempts += 1;
        const response = await submit(key, token, zip).catch(() => null);
        isAccepted = response?.status === 201;
        if (isAccepted) responses.set(key, response as ApiResponse<Job>);
        else if (response !== null) assert.ok([409, 503].includes(response.status), response.text);
        await sleep(submitIntervalMs);
      }
    }
  }

  const submit = (key: string, token: string, zip: Uint8Array) =>
    createCaller(server.url, token).send(
      'POST',
      '/jobs/hpc_one/',
      {
        'content-disposition': 'attachment; filename=job.zip',
        payload: JSON.stringify({ command: 'true', title: key, runtime: '0.01' }),
        'idempotency-key': key,
      },
      zip as NonNullable<RequestInit['body']>,
    ) as Promise<ApiResponse<Job>>;

  before(async () => {
    server = await spawnServer({ data });
    const { userToken } = server;
    const zip = await createZip({ input: 'x'.repeat(10_000) });
    const running = Array.from({ length: clients }, (_, index) => runClient(`c${index}`, userToken, zip));
    for (let round = 0; round < rounds; round++) {
      await sleep(Math.random() * maxLifetimeMs);
      await server.kill();
      server = await spawnServer({ data });
    }
    isOver = true;
    await Promise.all(running);
    const me = createCaller(server.url, userToken);
    // A late repetition gets the same response.
    const [[key, first] = []] = responses;
    assert.ok(key && first);
    assert.equal((await submit(key, userToken, zip)).text, first.text);
    jobs = (await me.get<Job[]>('/jobs/')).body;
    assert.equal(await server.stop(), 0);
  });
  after(async () => {
    await server.stop();
    rmSync(join(data, '..'), { recursive: true, force: true, maxRetries: 50, retryDelay: 100 });
  });

  test('are all accepted, some after repetitions', () => {
    assert.ok(responses.size > 0);
    assert.ok(attempts > responses.size);
  });

  test('create exactly one job for each key', () => {
    assert.deepEqual(jobs.map((job) => job.title).sort(), [...responses.keys()].sort());
  });

  test('return the stored job', () => {
    const ids = new Map(jobs.map((job) => [job.title, job.job_id]));
    for (const [key, { body }] of responses) assert.equal(body.job_id, ids.get(key));
  });

  test('leave no key in progress, and a ledger that balances', async () => {
    await withDatabase(data, async (db) => {
      assert.deepEqual(await db.selectFrom('idempotency').select('key').where('response', '=', '').execute(), []);
      assert.deepEqual((await verifyLedger(db)).problems, []);
    });
  });
});
