import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Caller, callerOf, type Job } from '../support/api.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';
import { type SlurmCluster, startCluster } from '../support/slurm-cluster.ts';
import { until } from '../support/until.ts';
import { slurmConfig } from './config.ts';

interface System {
  status: string;
  status_since: string;
}

describe('a minute without a controller, under load', () => {
  const accepted: Job[] = [];
  const refusals: string[] = [];
  let cluster: SlurmCluster;
  let server: ServerProcess;
  let me: Caller;
  let marks: string;

  /** A user who never stops submitting, and looks at the jobs meanwhile. */
  async function submitUntil(over: AbortSignal, name: string): Promise<void> {
    for (let n = 0; !over.aborted; n++) {
      const command = `echo ran >> ${marks}/ran-${name}-${n}`;
      const { status, body, text } = await me.submit('/jobs/hpc_one/', { command, title: `ran-${name}-${n}` });
      if (status === 201) accepted.push(body);
      else refusals.push(text);
      const { status: read } = await me.get('/jobs/');
      if (read !== 200) refusals.push(`GET /jobs/ was answered with ${read}`);
      await sleep(1000);
    }
  }
  const shownAs = (status: string) => async () => {
    const { body } = await me.get<System>('/hpc/hpc_one/');
    return body.status === status ? body : undefined;
  };

  before(async () => {
    cluster = await startCluster({ nodes: 2 });
    marks = cluster.folder;
    server = await spawnServer({ config: slurmConfig(cluster) });
    me = callerOf(server.url, server.userToken);
  });
  after(async () => {
    await server.dispose();
    await cluster.stop();
  });

  test('every submission is accepted all the while, and the system is shown to be down', async () => {
    const over = new AbortController();
    const users = ['a', 'b', 'c'].map((name) => submitUntil(over.signal, name));
    await until('a first job', () => accepted[0]);
    await cluster.killController();
    const before = accepted.length;
    const minute = sleep(60_000);
    const down = await until('the system is shown to be down', shownAs('down'));
    assert.ok(Date.parse(down.status_since) > 0);
    await minute;
    assert.ok(accepted.length > before, 'nothing was accepted during the outage');
    await cluster.startController();
    over.abort();
    await Promise.all(users);
    assert.deepEqual(refusals, []);
  });

  test('all of them run afterwards, once each', async () => {
    for (const job of accepted) assert.equal((await me.finished(job)).stage, 'SUCCESSFUL', job.title);
    const runs = accepted.map(({ title }) => readFileSync(join(marks, title), 'utf8'));
    assert.deepEqual(new Set(runs), new Set(['ran\n']));
    await until('the system is shown to be up again', shownAs('up'));
  });

  test('the books balance', async () => {
    assert.match((await server.bursar('ledger', 'verify')).stdout, /\d/);
  });
});
