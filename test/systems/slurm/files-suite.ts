import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { jobPath, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import { parseSse } from '../../support/parse-sse.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { type SharedCluster, sharedCluster } from '../../support/shared-cluster.ts';
import { notIsolatedSlurmConfig } from '../../support/slurm-config.ts';
import { until } from '../../support/until.ts';
import { readZip } from '../../support/unzip.ts';
import { createZip } from '../../support/zip.ts';
import type { ClusterAccess } from './service-suite.ts';

/** More than all buffers on the way can hold. */
const fileBytes = 40_000_000;

/** Tests files and logs of jobs on a real Slurm cluster; the behaviour is the same for every kind of access. */
export function filesSuite(name: string, connect: () => Promise<ClusterAccess>): void {
  describe(`files and logs of jobs on Slurm, ${name}`, { concurrency: 1 }, () => {
    let cluster: SharedCluster;
    let access: ClusterAccess;
    let server: ServerProcess;
    let me: Caller;
    before(async () => {
      cluster = await sharedCluster();
      access = await connect();
      const engine = { workspaceFolder: join(cluster.folder, 'work'), ...access.engine };
      server = await spawnServer({ config: notIsolatedSlurmConfig(cluster, engine) });
      me = createCaller(server.url, server.userToken);
    });
    after(async () => {
      await server.dispose();
      await access.close();
      await cluster.stop();
    });

    const submit = async (script: string) => {
      const zip = await createZip({ 'run.sh': `#!/bin/bash\n${script}\n`, 'data/in': 'input' });
      return (await me.submit('/jobs/hpc_one/', { command: 'sbatch run.sh' }, zip)).body;
    };
    const finishJob = (job: Job) => writeFileSync(join(cluster.folder, 'work', job.job_id, 'files', 'go'), '');
    const filesOf = (job: Job) => jobPath(job).replace('/jobs/', '/files/');
    const get = (path: string, headers: Record<string, string> = {}) =>
      fetch(server.url + path, { headers: { authorization: `Bearer ${server.userToken}`, ...headers } });
    const listFiles = async (job: Job) => (await me.get<{ path: string; size: number }[]>(filesOf(job))).body;
    const listPaths = async (job: Job) => (await listFiles(job)).map(({ path }) => path).sort();
    const schedulerCommands = async () => {
      const lines = (await (await get('/metrics')).text()).split('\n');
      // squeue runs periodically, independent of readers.
      return lines.filter((line) => /^bursar_scheduler_commands_total/.test(line) && !line.includes('squeue'));
    };

    test('lists, reads and follows the files and logs of a job while it runs and after its end', async () => {
      const job = await submit(
        `echo first; mkdir out; printf 0123456789 > out/ten; ${waitForGoScript}; echo last; echo late > out/late`,
      );
      await waitForStage(me, job, 'RUNNING');
      const follow = await get(`${jobPath(job)}log/?follow=1`);
      const events = await get(`${jobPath(job)}log/?follow=1`, { accept: 'text/event-stream' });
      // bash creates the file before printf writes it.
      await until(
        'the job has written',
        async () => (await listFiles(job)).some(({ path, size }) => path === 'out/ten' && size === 10) || undefined,
      );
      const before = await schedulerCommands();
      assert.deepEqual(await listPaths(job), ['data/in', 'out/ten', 'run.sh']);
      assert.equal(await (await get(`${filesOf(job)}out/ten`)).text(), '0123456789');
      const part = await get(`${filesOf(job)}out/ten`, { range: 'bytes=-3' });
      assert.deepEqual([part.status, await part.text()], [206, '789']);
      assert.equal((await get(`${filesOf(job)}out/ten`, { range: 'bytes=10-' })).status, 416);
      await until(
        'it has printed',
        async () => (await (await get(`${jobPath(job)}log/`)).text()) === 'first\n' || undefined,
      );
      assert.deepEqual(await schedulerCommands(), before, 'reading must run no scheduler command');
      finishJob(job);
      assert.equal(await follow.text(), 'first\nlast\n');
      const logEvents = parseSse(await events.text());
      assert.equal(logEvents.map(({ data }) => JSON.parse(data).text ?? '').join(''), 'first\nlast\n');
      assert.equal(logEvents.at(-1)?.event, 'end');
      assert.ok((await listPaths(job)).includes('out/late'));
      const zip = await get(`${filesOf(job)}?archive=zip`);
      const contents = await readZip(Buffer.from(await zip.arrayBuffer()));
      assert.equal(String(contents.get('out/late')), 'late\n');
    });

    test('answers 304 for an unchanged file, and serves empty logs for a job without output', async () => {
      const job = await me.waitUntilFinished(await submit('true'));
      const etag = await until('its tag is strong', async () => {
        const tag = (await get(`${filesOf(job)}data/in`)).headers.get('etag') ?? '';
        return tag.startsWith('"') ? tag : undefined;
      });
      assert.equal((await get(`${filesOf(job)}data/in`, { 'if-none-match': etag })).status, 304);
      for (const stream of ['stdout', 'stderr']) {
        for (const follow of ['0', '1']) {
          assert.equal(await (await get(`${jobPath(job)}log/?stream=${stream}&follow=${follow}`)).text(), '');
        }
      }
    });

    test('downloads a large file completely, even if the connection to the cluster is lost meanwhile', async () => {
      const job = await me.waitUntilFinished(await submit(`head -c ${fileBytes} /dev/urandom > big`));
      const path = `${filesOf(job)}big`;
      const hash = createHash('sha256');
      let received = 0;
      for (let tries = 0; received < fileBytes; tries += 1) {
        assert.ok(tries < 20);
        const response = await get(path, { range: `bytes=${received}-` });
        if (response.status === 503) continue;
        assert.equal(response.status, 206);
        try {
          for await (const chunk of response.body ?? []) {
            hash.update(chunk);
            received += chunk.length;
            if (tries === 0 && received > fileBytes / 4) await access.dropConnection?.(server);
          }
        } catch {
          // The connection broke: the next request continues from here.
        }
      }
      const content = await readFile(join(cluster.folder, 'work', job.job_id, 'files', 'big'));
      assert.equal(hash.digest('hex'), createHash('sha256').update(content).digest('hex'));
    });

    test('follows a log across a lost connection to the cluster', async () => {
      const job = await submit(`echo first; ${waitForGoScript}; echo last`);
      const response = await get(`${jobPath(job)}log/?follow=1`);
      let text = '';
      for await (const chunk of response.body ?? []) {
        text += Buffer.from(chunk);
        if (text !== 'first\n') continue;
        await access.dropConnection?.(server);
        await access.dropConnection?.(server);
        finishJob(job);
      }
      assert.equal(text, 'first\nlast\n');
    });

    test('serves neither links nor pipes, and answers 410 for deleted files', async () => {
      const job = await submit(
        'ln -s /etc/passwd link; ln -s / root; mkfifo pipe; mkdir d; ln -s ../../stdout d/up; ln -sf /etc/passwd ../stderr',
      );
      await me.waitUntilFinished(job);
      for (const path of ['link', 'root/etc/passwd', 'root/', 'pipe', 'd/up', '..%2fstdout', '%2e%2e/stdout']) {
        const response = await get(filesOf(job) + path);
        assert.equal(response.status, 404, path);
        assert.doesNotMatch(await response.text(), /root:x/);
      }
      assert.deepEqual(await listPaths(job), ['data/in', 'run.sh']);
      assert.equal(await (await get(`${jobPath(job)}log/?stream=stderr`)).text(), '');
      assert.equal((await me.send('DELETE', jobPath(job))).status, 200);
      for (const path of [filesOf(job), `${filesOf(job)}run.sh`, `${jobPath(job)}log/`]) {
        assert.equal((await get(path)).status, 410);
      }
    });
  });
}
