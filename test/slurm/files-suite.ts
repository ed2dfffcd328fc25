import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Caller, callerOf, type Job } from '../support/api.ts';
import { gate, inStage, pathOf } from '../support/jobs.ts';
import { parseSse } from '../support/parse-sse.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';
import { type SlurmCluster, startCluster } from '../support/slurm-cluster.ts';
import { until } from '../support/until.ts';
import { contentsOf } from '../support/unzip.ts';
import { zipOf } from '../support/zip.ts';
import { slurmConfig } from './config.ts';
import type { ClusterAccess } from './service-suite.ts';

/** What users read of jobs on a real Slurm, the same however Bursar reaches it. */
export function filesSuite(name: string, reach: () => Promise<ClusterAccess>): void {
  describe(`files and logs of jobs on a real Slurm, ${name}`, () => {
    let cluster: SlurmCluster;
    let way: ClusterAccess;
    let server: ServerProcess;
    let me: Caller;
    before(async () => {
      cluster = await startCluster({ nodes: 1 });
      way = await reach();
      const engine = { workspaceFolder: join(cluster.folder, 'work'), ...way.engine };
      server = await spawnServer({ config: slurmConfig(cluster, engine) });
      me = callerOf(server.url, server.userToken);
    });
    after(async () => {
      await server.dispose();
      await way.close();
      await cluster.stop();
    });

    const submit = async (script: string) => {
      const zip = await zipOf({ 'run.sh': `#!/bin/bash\n${script}\n`, 'data/in': 'input' });
      return (await me.submit('/jobs/hpc_one/', { command: 'sbatch run.sh' }, zip)).body;
    };
    const letGo = (job: Job) => writeFileSync(join(cluster.folder, 'work', job.job_id, 'files', 'go'), '');
    const filesOf = (job: Job) => pathOf(job).replace('/jobs/', '/files/');
    const get = (path: string, headers: Record<string, string> = {}) =>
      fetch(server.url + path, { headers: { authorization: `Bearer ${server.userToken}`, ...headers } });
    const pathsOf = async (job: Job) =>
      (await me.get<{ path: string }[]>(filesOf(job))).body.map(({ path }) => path).sort();
    const schedulerCommands = async () => {
      const lines = (await (await get('/metrics')).text()).split('\n');
      // squeue is asked by the clock, whoever reads.
      return lines.filter((line) => /^bursar_scheduler_commands_total/.test(line) && !line.includes('squeue'));
    };

    test('a job is listed, read and followed while it runs, and after its end', async () => {
      const job = await submit(
        `echo first; mkdir out; printf 0123456789 > out/ten; ${gate}; echo last; echo late > out/late`,
      );
      await inStage(me, job, 'RUNNING');
      const follow = await get(`${pathOf(job)}log/?follow=1`);
      const events = await get(`${pathOf(job)}log/?follow=1`, { accept: 'text/event-stream' });
      await until('the job has written', async () => (await pathsOf(job)).includes('out/ten') || undefined);
      const before = await schedulerCommands();
      assert.deepEqual(await pathsOf(job), ['data/in', 'out/ten', 'run.sh']);
      assert.equal(await (await get(`${filesOf(job)}out/ten`)).text(), '0123456789');
      const part = await get(`${filesOf(job)}out/ten`, { range: 'bytes=-3' });
      assert.deepEqual([part.status, await part.text()], [206, '789']);
      assert.equal((await get(`${filesOf(job)}out/ten`, { range: 'bytes=10-' })).status, 416);
      await until(
        'it has printed',
        async () => (await (await get(`${pathOf(job)}log/`)).text()) === 'first\n' || undefined,
      );
      assert.deepEqual(await schedulerCommands(), before, 'reading costs the scheduler nothing');
      letGo(job);
      assert.equal(await follow.text(), 'first\nlast\n');
      const received = parseSse(await events.text());
      assert.equal(received.map(({ data }) => JSON.parse(data).text ?? '').join(''), 'first\nlast\n');
      assert.equal(received.at(-1)?.event, 'end');
      assert.ok((await pathsOf(job)).includes('out/late'));
      const zip = await get(`${filesOf(job)}?archive=zip`);
      const contents = await contentsOf(Buffer.from(await zip.arrayBuffer()));
      assert.equal(String(contents.get('out/late')), 'late\n');
    });

    test('an unchanged file is 304, and a job that has printed nothing has empty logs', async () => {
      const job = await me.finished(await submit('true'));
      const etag = await until('its tag is strong', async () => {
        const tag = (await get(`${filesOf(job)}data/in`)).headers.get('etag') ?? '';
        return tag.startsWith('"') ? tag : undefined;
      });
      assert.equal((await get(`${filesOf(job)}data/in`, { 'if-none-match': etag })).status, 304);
      for (const stream of ['stdout', 'stderr']) {
        for (const follow of ['0', '1']) {
          assert.equal(await (await get(`${pathOf(job)}log/?stream=${stream}&follow=${follow}`)).text(), '');
        }
      }
    });

    test('a hundred megabytes come whole, also when the connection to the cluster is lost on the way', async () => {
      const job = await me.finished(await submit('head -c 100000000 /dev/urandom > big'));
      const path = `${filesOf(job)}big`;
      const hash = createHash('sha256');
      let got = 0;
      for (let tries = 0; got < 100_000_000; tries += 1) {
        assert.ok(tries < 20);
        const response = await get(path, { range: `bytes=${got}-` });
        if (response.status === 503) continue;
        assert.equal(response.status, 206);
        try {
          for await (const chunk of response.body ?? []) {
            hash.update(chunk);
            got += chunk.length;
            if (tries === 0 && got > 20_000_000) await way.dropConnection?.(server);
          }
        } catch {
          // Broken off: the rest is asked for again.
        }
      }
      const kept = await readFile(join(cluster.folder, 'work', job.job_id, 'files', 'big'));
      assert.equal(hash.digest('hex'), createHash('sha256').update(kept).digest('hex'));
    });

    test('a log is followed through a lost connection to the cluster', async () => {
      const job = await submit(`echo first; ${gate}; echo last`);
      const response = await get(`${pathOf(job)}log/?follow=1`);
      let text = '';
      for await (const chunk of response.body ?? []) {
        text += Buffer.from(chunk);
        if (text !== 'first\n') continue;
        await way.dropConnection?.(server);
        await way.dropConnection?.(server);
        letGo(job);
      }
      assert.equal(text, 'first\nlast\n');
    });

    test('links lead nowhere, pipes keep nobody waiting, and deleted files are gone', async () => {
      const job = await submit(
        'ln -s /etc/passwd link; ln -s / root; mkfifo pipe; mkdir d; ln -s ../../stdout d/up; ln -sf /etc/passwd ../stderr',
      );
      await me.finished(job);
      for (const path of ['link', 'root/etc/passwd', 'root/', 'pipe', 'd/up', '..%2fstdout', '%2e%2e/stdout']) {
        const response = await get(filesOf(job) + path);
        assert.equal(response.status, 404, path);
        assert.doesNotMatch(await response.text(), /root:x/);
      }
      assert.deepEqual(await pathsOf(job), ['data/in', 'run.sh']);
      assert.equal(await (await get(`${pathOf(job)}log/?stream=stderr`)).text(), '');
      assert.equal((await me.send('DELETE', pathOf(job))).status, 200);
      for (const path of [filesOf(job), `${filesOf(job)}run.sh`, `${pathOf(job)}log/`]) {
        assert.equal((await get(path)).status, 410);
      }
    });
  });
}
