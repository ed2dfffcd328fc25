import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { Bursar } from '#client';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { createCertificateAuthority } from '../../support/certificates.ts';
import { freePorts } from '../../support/ports.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { type ReverseProxy, startNginx } from '../../support/reverse-proxy.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';
import { countRuns } from '../crash/count-runs.ts';

describe('two instances on one PostgreSQL, behind nginx with the shipped file', () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-several-'));
  const data = join(folder, 'data');
  const systemAuthorities = getCACertificates('default');
  const closing = new AbortController();
  const lines: string[] = [];
  const servers: ServerProcess[] = [];
  let postgres: TestPostgres;
  let proxy: ReverseProxy;
  let start: (index: number) => Promise<ServerProcess>;
  let first: ServerProcess;
  let second: ServerProcess;
  let me: Caller;
  let bursar: Bursar;

  const command = 'echo ran >> runs';
  const submit = (title: string) => me.submit('/jobs/hpc_one/', { command, title, runtime: 0.1 });
  const submitRepeatedly = (title: string) =>
    bursar.submit({ hpc: 'hpc_one', command, title, runtime: 0.1, retries: 20, signal: closing.signal });
  const count502 = () => lines.filter((line) => / 502 /.test(line)).length;

  /** Waits for the end of all jobs. */
  async function checkJobs(titles: string[]): Promise<void> {
    const listed = (await me.get<Job[]>('/jobs/')).body;
    assert.deepEqual(listed.map(({ title }) => title).sort(), titles.sort());
    const jobs = await Promise.all(listed.map((job) => me.waitUntilFinished(job)));
    for (const job of jobs) assert.equal(job.stage, 'SUCCESSFUL', job.title);
    assert.deepEqual(countRuns(data), Object.fromEntries(jobs.map((job) => [job.job_id, 1])));
  }

  before(async () => {
    const authority = await createCertificateAuthority(join(folder, 'authority'));
    setDefaultCACertificates([...systemAuthorities, readFileSync(authority.certificateFile, 'utf8')]);
    postgres = await startPostgres();
    const url = await postgres.database('bursar');
    const ports = await freePorts(2);
    const config = {
      ...shippedConfig(),
      server: { trustProxy: ['127.0.0.1'], publicUrl: 'https://bursar.example.org' },
    };
    start = async (index) => {
      const env = { BURSAR_DATABASE_URL: url, BURSAR_PORT: String(ports[index]) };
      const server = await spawnServer({ data, config, env, tuning: { leaseMs: 1000 } });
      servers.push(server);
      return server;
    };
    first = await start(0);
    second = await start(1);
    const certificate = await authority.issue('IP:127.0.0.1');
    const upstreams = ports.map((port) => `127.0.0.1:${port}`);
    proxy = await startNginx({ folder: join(folder, 'nginx'), certificate, upstreams });
    me = createCaller(proxy.url, first.userToken);
    bursar = new Bursar({ url: proxy.url, token: first.userToken, onRequest: (line) => lines.push(line) });
  });
  after(async () => {
    closing.abort();
    setDefaultCACertificates(systemAuthorities);
    await proxy.close();
    await Promise.all(servers.map((server) => server.stop()));
    await postgres.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 });
  });

  test('when one is killed, nginx repeats its reads but not its submissions, and everything goes on', async () => {
    for (const title of ['a', 'b']) assert.equal((await submit(title)).status, 201);
    for (const server of [first, second])
      await until('both instances have got a submission', () => server.log().includes('"POST"') || undefined);

    // nginx takes turns: of two requests one reaches the suspended instance, which receives it but does not respond.
    first.process.kill('SIGSTOP');
    const submissions = [submit('c'), submit('c')];
    assert.equal((await Promise.race(submissions)).status, 201);
    const clients = [submitRepeatedly('d'), submitRepeatedly('e')];
    await Promise.race(clients);
    const reads = [me.get('/quotas/'), me.get('/quotas/')];
    assert.equal((await Promise.race(reads)).status, 200);
    assert.equal(count502(), 0);
    await first.kill();

    const statuses = async (responses: Promise<{ status: number }>[]) =>
      (await Promise.all(responses)).map(({ status }) => status).sort();
    assert.deepEqual(await statuses(submissions), [201, 502]);
    assert.deepEqual(await statuses(reads), [200, 200]);
    await Promise.all(clients);
    assert.equal(count502(), 1, lines.join('\n'));

    for (const title of ['f', 'g']) assert.equal((await submit(title)).status, 201);
    await checkJobs(['a', 'b', 'c', 'd', 'e', 'f', 'g']);
  });

  test('when both are stopped, the response is 502, and a repeated submission succeeds after a start', async () => {
    assert.equal(await second.stop(), 0);
    assert.equal((await me.get('/quotas/')).status, 502);
    const before502 = count502();
    const submission = submitRepeatedly('h');
    await until('the client got a 502', () => count502() > before502 || undefined);
    await start(0);
    await submission;
    await checkJobs(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']);
  });
});
