import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { verifyLedger } from '../../src/store/ledger/verify-ledger.ts';
import { type Answer, callerOf, type Job } from '../support/api.ts';
import { withDatabase } from '../support/database.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';
import { zipOf } from '../support/zip.ts';

const rounds = 10;
const clients = 4;
const livesMs = 600;
/** Between two tries of a client: each of its jobs is a process on this machine. */
const everyMs = 60;

describe('clients that repeat their submissions under their keys, while the server is killed at random', () => {
  const data = join(mkdtempSync(join(tmpdir(), 'bursar-once-')), 'data');
  const answers = new Map<string, Answer<Job>>();
  let tries = 0;
  let server: ServerProcess;
  let over = false;
  let jobs: Job[] = [];

  /** Submits one job after the other, each under a key of its own and as often as it takes to be answered. */
  async function client(name: string, token: string, zip: Uint8Array): Promise<void> {
    for (let number = 0; !over; number++) {
      const key = `${name}-${number}`;
      for (let answered = false; !answered; ) {
        tries += 1;
        const answer = await submit(key, token, zip).catch(() => null);
        answered = answer?.status === 201;
        if (answered) answers.set(key, answer as Answer<Job>);
        else if (answer !== null) assert.ok([409, 503].includes(answer.status), answer.text);
        await sleep(everyMs);
      }
    }
  }

  const submit = (key: string, token: string, zip: Uint8Array) =>
    callerOf(server.url, token).send(
      'POST',
      '/jobs/hpc_one/',
      {
        'content-disposition': 'attachment; filename=job.zip',
        payload: JSON.stringify({ command: 'true', title: key, runtime: '0.01' }),
        'idempotency-key': key,
      },
      zip as NonNullable<RequestInit['body']>,
    ) as Promise<Answer<Job>>;

  before(async () => {
    server = await spawnServer({ data });
    const { userToken } = server;
    const zip = await zipOf({ input: 'x'.repeat(10_000) });
    const running = Array.from({ length: clients }, (_, index) => client(`c${index}`, userToken, zip));
    for (let round = 0; round < rounds; round++) {
      await sleep(Math.random() * livesMs);
      await server.kill();
      server = await spawnServer({ data });
    }
    over = true;
    await Promise.all(running);
    const me = callerOf(server.url, userToken);
    // Who asks once more, long after, is told the same.
    const [[key, first] = []] = answers;
    assert.ok(key && first);
    assert.equal((await submit(key, userToken, zip)).text, first.text);
    jobs = (await me.get<Job[]>('/jobs/')).body;
    assert.equal(await server.stop(), 0);
  });
  after(async () => {
    await server.stop();
    rmSync(join(data, '..'), { recursive: true, force: true, maxRetries: 50, retryDelay: 100 });
  });

  test('are answered, and had to repeat some', () => {
    assert.ok(answers.size > 0);
    assert.ok(tries > answers.size);
  });

  test('have exactly one job a key', () => {
    assert.deepEqual(jobs.map((job) => job.title).sort(), [...answers.keys()].sort());
  });

  test('were told the job that there is', () => {
    const ids = new Map(jobs.map((job) => [job.title, job.job_id]));
    for (const [key, { body }] of answers) assert.equal(body.job_id, ids.get(key));
  });

  test('leave no key that is held, and books that balance', async () => {
    await withDatabase(data, async (db) => {
      assert.deepEqual(await db.selectFrom('idempotency').select('key').where('response', '=', '').execute(), []);
      assert.deepEqual((await verifyLedger(db)).problems, []);
    });
  });
});
