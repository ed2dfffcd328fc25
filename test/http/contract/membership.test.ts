import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { parse } from 'yaml';
import type { Caller, Job, Quota } from '../../support/api.ts';
import { loadOpenApiContract, type Problem } from '../../support/contract.ts';
import { listStoredFiles } from '../../support/jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { createZip } from '../../support/zip.ts';

// Behaviour that depends on the configuration: the order of projects, projects without autoJoin, and limits.

let server: TestServer;
let me: Caller;
let admin: Caller;

before(async () => {
  const config = parse(readFileSync(new URL('../../../config/bursar.yaml', import.meta.url), 'utf8'));
  const grant = { timeSeconds: 7200, spaceKb: 3 };
  config.systems.hpc_one.projects = [
    { name: 'proj_hpc_one_07', autoJoin: false, grant },
    { name: 'proj_hpc_one_01', autoJoin: true, grant: { timeSeconds: 0, spaceKb: 0 } },
    { name: 'proj_hpc_one_05', autoJoin: false, grant },
  ];
  config.systems.hpc_two.charge = 'node';
  config.systems.hpc_two.projects[1].grant.timeSeconds = 100;
  config.systems.hpc_two.tools = {
    GREP: { command: ['grep', '{word}', 'in.txt'], parameters: { word: { required: true } } },
  };
  config.submissions = { maxBodyKb: 100 };
  server = await startServer({ config });
  const contract = await loadOpenApiContract(server);
  me = contract.callerFor(server.userToken);
  admin = contract.callerFor(server.adminToken);
});
after(() => server.dispose());

test('2.1 the first project of a system is its default, and every user is a member of it', async () => {
  const { status, body } = await me.submit('/jobs/hpc_one/', { command: 'true', runtime: '0.1' });
  assert.deepEqual([status, body.project_name], [201, 'proj_hpc_one_07']);
  await me.waitUntilFinished(body);
});

test('4.3 quotas are those of the projects that the caller is a member of', async () => {
  const { body } = await me.get<Quota[]>('/quotas/hpc_one/');
  assert.deepEqual(
    body.map(({ project_name }) => project_name),
    ['proj_hpc_one_01', 'proj_hpc_one_07'],
  );
});

test('without membership in a project, its jobs are an empty list, its quota is 404 and a submission 403', async () => {
  const project = 'hpc_one/proj_hpc_one_05/';
  const jobs = await me.get<Job[]>(`/jobs/${project}`);
  assert.deepEqual([jobs.status, jobs.text], [200, '[]']);
  for (const quota of [
    await me.get<Problem>(`/quotas/${project}`),
    await admin.get<Problem>(`/admin/quotas/301330/${project}`),
  ]) {
    assert.deepEqual([quota.status, quota.body.code], [404, 'quota_unknown']);
  }
  const { status, body } = await me.submit(`/jobs/${project}`, { command: 'true' });
  assert.deepEqual([status, (body as unknown as Problem).code], [403, 'not_a_member']);
});

test('an empty quota is returned as 0.0 and 0, and allows no submission', async () => {
  const { text } = await me.get('/quotas/hpc_one/proj_hpc_one_01/');
  assert.match(text, /"space_left":0\.0,"time_left":0,/);
  const { status, body } = await me.submit('/jobs/hpc_one/proj_hpc_one_01/', { command: 'true', runtime: '0.0001' });
  assert.deepEqual([status, (body as unknown as Problem).code], [403, 'quota_exceeded']);
});

test('a zip that unpacks to more than the space left is 403 quota_exceeded, and nothing is stored', async () => {
  const before = [(await me.get('/quotas/')).text, (await me.get('/jobs/')).text, listStoredFiles(server)];
  const zip = await createZip({ 'big.txt': 'some text '.repeat(301) });
  const { status, body } = await me.submit('/jobs/hpc_one/', { command: 'true', runtime: '0.1' }, zip);
  const { code, resource, needed } = body as unknown as Problem & { resource: string; needed: number };
  assert.deepEqual([status, code, resource, needed], [403, 'quota_exceeded', 'space', 3.01]);
  assert.deepEqual([(await me.get('/quotas/')).text, (await me.get('/jobs/')).text, listStoredFiles(server)], before);
});

test('a body larger than the limit is 413, and nothing is stored', async () => {
  const before = [(await me.get('/jobs/')).text, listStoredFiles(server)];
  const { status, body } = await me.submit(
    '/jobs/hpc_one/',
    { command: 'true', runtime: '0.1' },
    Buffer.alloc(100_001),
  );
  assert.deepEqual([status, (body as unknown as Problem).code], [413, 'too_large']);
  assert.deepEqual([(await me.get('/jobs/')).text, listStoredFiles(server)], before);
});

test('parameters that a tool declares are required, and are passed to its command', async () => {
  const missing = await me.submit('/jobs/hpc_two/', { tool: 'GREP' });
  assert.equal(missing.status, 400);
  assert.deepEqual(
    (missing.body as unknown as Problem).errors?.map(({ field }) => field),
    ['word'],
  );
  const zip = await createZip({ 'in.txt': 'one $(two)\nthree\n' });
  const { body: job } = await me.submit('/jobs/hpc_two/', { tool: 'GREP', word: '$(two)' }, zip);
  assert.match(job.job_id, /^BURSAR-JOB-GREP-[0-9A-F]{32}$/);
  assert.equal((await me.waitUntilFinished(job)).stage, 'COMPLETED');
});

test('a system that charges by node holds nodes × runtime, not cores', async () => {
  const payload = { tool: 'GREP', word: 'x', node_number: 5, core_number: 7, runtime: 0.5 };
  const { status, body } = await me.submit('/jobs/hpc_two/proj_hpc_two_02/', payload);
  const { code, needed } = body as unknown as Problem & { needed: number };
  assert.deepEqual([status, code, needed], [403, 'quota_exceeded', 5 * 1800]);
});
