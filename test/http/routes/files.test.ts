import assert from 'node:assert/strict';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Caller, Job } from '../../support/api.ts';
import { loadOpenApiContract, type OpenApiContract, type Problem } from '../../support/contract.ts';
import { queryDatabase } from '../../support/database.ts';
import { jobPath, releaseJob, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { readZip } from '../../support/unzip.ts';
import { createZip } from '../../support/zip.ts';

interface ListedFile {
  path: string;
  size: number;
  modified: string;
}

const script = `#!/bin/sh
mkdir out
echo '<script>alert(1)</script>' > out/page.html
printf 0123456789 > 'out/ten bytes'
printf x > "out/grüße \\"x\\".txt"
: > out/empty
${waitForGoScript}
echo done > out/late.csv
`;

let server: TestServer;
let contract: OpenApiContract;
let me: Caller;
let job: Job;

before(async () => {
  server = await startServer();
  contract = await loadOpenApiContract(server);
  me = contract.callerFor(server.userToken);
  const zip = await createZip({ 'run.sh': script, 'data/in.json': '{}' });
  job = (await me.submit('/jobs/hpc_one/', { command: 'sbatch run.sh' }, zip)).body;
});
after(() => server.dispose());

const filesOf = ({ job_id: id }: Job, prefix = '/files/') => `${prefix}hpc_one/proj_hpc_one_01/${id}/`;
const pathsIn = (files: ListedFile[]) => files.map(({ path }) => path);

async function fetchFile(path: string, headers: Record<string, string> = {}, method = 'GET') {
  const response = await fetch(server.url + filesOf(job) + path, {
    method,
    headers: { authorization: `Bearer ${server.userToken}`, ...headers },
  });
  return { status: response.status, headers: response.headers, bytes: Buffer.from(await response.arrayBuffer()) };
}

describe('the files of a job', () => {
  test('are listed after submission, while it runs and after its end', async () => {
    assert.equal((await me.get(filesOf(job))).status, 200);
    await waitForStage(me, job, 'RUNNING');
    const running = await until('the job has written', async () => {
      const { body } = await me.get<ListedFile[]>(filesOf(job));
      return pathsIn(body).includes('out/empty') ? body : undefined;
    });
    assert.deepEqual(pathsIn(running), [
      'data/in.json',
      'out/empty',
      'out/grüße "x".txt',
      'out/page.html',
      'out/ten bytes',
      'run.sh',
    ]);
    const ten = running.find(({ path }) => path === 'out/ten bytes');
    assert.equal(ten?.size, 10);
    assert.ok(Math.abs(Date.parse(ten?.modified ?? '') - Date.now()) < 600_000);
    releaseJob(server, job);
    await me.waitUntilFinished(job);
    const { body } = await me.get<ListedFile[]>(filesOf(job));
    assert.ok(pathsIn(body).includes('out/late.csv'));
  });

  test('are listed by folder if the path ends in a slash', async () => {
    const { body } = await me.get<ListedFile[]>(`${filesOf(job)}data/`);
    assert.deepEqual(pathsIn(body), ['data/in.json']);
    for (const path of ['nowhere/', 'run.sh/', 'data', 'nowhere', 'data/in.json/x']) {
      const { status, body: problem } = await me.get<Problem>(filesOf(job) + path);
      assert.deepEqual([status, problem.code], [404, 'file_unknown'], path);
    }
  });

  test('can be downloaded as a zip, all of them or one folder', async () => {
    const { status, headers, bytes } = await fetchFile('?archive=zip');
    assert.equal(status, 200);
    assert.equal(headers.get('content-type'), 'application/zip');
    assert.equal(headers.get('content-disposition'), `attachment; filename=${job.job_id}.zip`);
    const contents = await readZip(bytes);
    assert.equal(String(contents.get('out/ten bytes')), '0123456789');
    assert.ok(contents.has('data/in.json') && contents.has('run.sh'));
    const folder = await fetchFile('out/?archive=zip');
    assert.equal(folder.headers.get('content-disposition'), 'attachment; filename=out.zip');
    assert.ok([...(await readZip(folder.bytes)).keys()].every((path) => path.startsWith('out/')));
    const unknown = await fetchFile('nowhere/?archive=zip');
    assert.deepEqual([unknown.status, unknown.headers.get('content-disposition')], [404, null]);
    assert.equal((await fetchFile('?archive=tar')).status, 400);
  });

  for (const [path, type] of [
    ['out/page.html', 'text/html'],
    ['data/in.json', 'application/json'],
    ['run.sh', 'application/x-sh'],
    ['out/late.csv', 'text/csv'],
    ['out/ten%20bytes', 'application/octet-stream'],
  ] as const) {
    test(`${path} is ${type}, and a browser does not render it`, async () => {
      const { status, headers } = await fetchFile(path);
      assert.equal(status, 200);
      assert.equal(headers.get('content-type'), type);
      assert.match(headers.get('content-disposition') ?? '', /^attachment; filename=/);
      assert.equal(headers.get('x-content-type-options'), 'nosniff');
      assert.equal(headers.get('content-security-policy'), "sandbox; default-src 'none'");
      assert.equal(headers.get('cross-origin-resource-policy'), 'same-origin');
    });
  }

  test('keep names with special characters', async () => {
    const { headers } = await fetchFile(`out/${encodeURIComponent('grüße "x".txt')}`);
    assert.equal(
      headers.get('content-disposition'),
      `attachment; filename="gr??e \\"x\\".txt"; filename*=UTF-8''gr%C3%BC%C3%9Fe%20%22x%22.txt`,
    );
  });

  test('a name cannot inject a header', async () => {
    const name = 'a\r\nset-cookie: x=1\r\n';
    writeFileSync(join(server.data, 'workspaces', job.job_id, 'files', name), 'x');
    const { status, headers } = await fetchFile(encodeURIComponent(name));
    assert.deepEqual([status, headers.get('set-cookie')], [200, null]);
    assert.match(headers.get('content-disposition') ?? '', /filename\*=UTF-8''a%0D%0A/);
  });

  test('HEAD returns the headers of a file without its content', async () => {
    // The ETag of a file that has just been written is weak, for a moment.
    const get = await until('the ETag is strong', async () => {
      const response = await fetchFile('out/ten%20bytes');
      return response.headers.get('etag')?.startsWith('W/') ? undefined : response;
    });
    const head = await fetchFile('out/ten%20bytes', { range: 'bytes=0-1' }, 'HEAD');
    assert.equal(head.status, 200);
    assert.equal(head.bytes.length, 0);
    for (const name of ['content-length', 'content-type', 'etag', 'last-modified', 'accept-ranges']) {
      assert.equal(head.headers.get(name), get.headers.get(name), name);
    }
    assert.equal(head.headers.get('content-length'), '10');
    for (const path of ['', '?archive=zip', 'out/empty']) {
      assert.equal((await fetchFile(path, {}, 'HEAD')).status, 200, path);
    }
    assert.equal((await fetchFile('nowhere', {}, 'HEAD')).status, 404);
  });

  test('a range of a file is 206, and a range beyond its end 416 with its size', async () => {
    for (const [range, expected, where] of [
      ['bytes=2-4', '234', 'bytes 2-4/10'],
      ['bytes=7-', '789', 'bytes 7-9/10'],
      ['bytes=-2', '89', 'bytes 8-9/10'],
      ['bytes=0-99', '0123456789', 'bytes 0-9/10'],
    ] as const) {
      const { status, headers, bytes } = await fetchFile('out/ten%20bytes', { range });
      assert.deepEqual([status, String(bytes), headers.get('content-range')], [206, expected, where]);
      assert.equal(headers.get('content-length'), String(expected.length));
    }
    for (const range of ['bytes=10-', 'bytes=-0']) {
      const { status, headers, bytes } = await fetchFile('out/ten%20bytes', { range });
      assert.deepEqual([status, headers.get('content-range')], [416, 'bytes */10']);
      assert.equal(JSON.parse(String(bytes)).code, 'range_not_satisfiable');
    }
    assert.equal((await fetchFile('out/empty', { range: 'bytes=0-' })).status, 416);
    assert.deepEqual(String((await fetchFile('out/ten%20bytes', { range: 'bytes=1-2,4-5' })).bytes), '0123456789');
  });

  test('an unchanged file is 304 by ETag or time and 206 by If-Range; a changed file is sent completely', async () => {
    const file = join(server.data, 'workspaces', job.job_id, 'files', 'versions');
    writeFileSync(file, 'first content');
    const etag = await until('the ETag is strong', async () => {
      const tag = (await fetchFile('versions', {}, 'HEAD')).headers.get('etag') ?? '';
      return tag.startsWith('W/') ? undefined : tag;
    });
    assert.match(etag, /^"[\w.-]+"$/);
    const unchanged = await fetchFile('versions', { 'if-none-match': etag });
    assert.deepEqual([unchanged.status, unchanged.bytes.length, unchanged.headers.get('etag')], [304, 0, etag]);
    assert.equal((await fetchFile('versions', { 'if-none-match': etag }, 'HEAD')).status, 304);
    const { headers } = await fetchFile('versions');
    assert.equal(
      (await fetchFile('versions', { 'if-modified-since': headers.get('last-modified') ?? '' })).status,
      304,
    );
    const range = 'bytes=6-';
    assert.equal(String((await fetchFile('versions', { range, 'if-range': etag })).bytes), 'content');
    writeFileSync(file, 'other content');
    assert.equal((await fetchFile('versions', { 'if-none-match': etag })).status, 200);
    const anew = await fetchFile('versions', { range, 'if-range': etag });
    assert.deepEqual([anew.status, String(anew.bytes)], [200, 'other content']);
  });
});

describe('access to the files of jobs', () => {
  const kinds = ['', 'run.sh', 'data/', '?archive=zip'];

  test('a download leaves no error in the log', async () => {
    assert.equal((await fetchFile('out/page.html')).status, 200);
    assert.equal((await fetchFile('out/page.html', {}, 'HEAD')).status, 200);
    assert.doesNotMatch(server.log(), /Promise errored/);
  });

  test("another user's files are 404, as if the job did not exist", async () => {
    const other = contract.callerFor(await server.token('4711'));
    for (const kind of kinds) {
      const { status, body } = await other.get<Problem>(filesOf(job) + kind);
      assert.deepEqual([status, body.code], [404, 'job_unknown'], kind);
    }
    const log = await other.get<Problem>(`${jobPath(job)}log/`);
    assert.deepEqual([log.status, log.body.code], [404, 'job_unknown']);
  });

  test('without a token the response is 401, and the paths of administrators are 403 for other users', async () => {
    for (const kind of kinds) {
      assert.equal((await contract.callerFor(null).get(filesOf(job) + kind)).status, 401);
      assert.equal((await me.get(filesOf(job, '/admin/files/') + kind)).status, 403);
    }
  });

  test('administrators can read the files of all users', async () => {
    const admin = contract.callerFor(server.adminToken);
    assert.equal((await admin.get(filesOf(job))).status, 404, 'they are not their own');
    const files = filesOf(job, '/admin/files/');
    const { status, body } = await admin.get<ListedFile[]>(files);
    assert.deepEqual([status, pathsIn(body).includes('run.sh')], [200, true]);
    const headers = { authorization: `Bearer ${server.adminToken}` };
    const response = await fetch(`${server.url}${files}data/in.json`, { headers });
    assert.equal(await response.text(), '{}');
  });

  test('an unknown job, project or system is 404', async () => {
    for (const path of ['hpc_one/proj_hpc_one_01/X/', 'hpc_one/nowhere/X/', 'hpc_three/nowhere/X/']) {
      assert.equal((await me.get(`/files/${path}`)).status, 404);
      assert.equal((await me.get(`/files/${path}a`)).status, 404);
    }
    assert.equal((await me.get(filesOf(job).replace('one_01', 'two_01').replace('hpc_one', 'hpc_two'))).status, 404);
  });

  test('other methods are 405', async () => {
    for (const kind of ['', 'run.sh']) {
      const { status, headers } = await me.send('DELETE', filesOf(job) + kind);
      assert.deepEqual([status, headers.get('allow')], [405, 'GET, HEAD']);
    }
  });

  test('files and logs that are gone although nobody deleted them are 503, until they are back', async () => {
    const workspaces = join(server.data, 'workspaces');
    renameSync(workspaces, `${workspaces}.elsewhere`);
    const paths = [...kinds.map((kind) => filesOf(job) + kind), filesOf(job, '/admin/files/'), `${jobPath(job)}log/`];
    for (const path of [...paths, `${jobPath(job)}log/?stream=stderr&follow=1`]) {
      const caller = path.startsWith('/admin') ? contract.callerFor(server.adminToken) : me;
      const { status, body, headers } = await caller.get<Problem>(path);
      assert.deepEqual([status, body.code, headers.get('retry-after')], [503, 'files_missing', '60'], path);
      assert.match(body.detail, /mounted.*restored/);
    }
    rmSync(workspaces, { recursive: true, force: true });
    renameSync(`${workspaces}.elsewhere`, workspaces);
    assert.equal((await me.get(filesOf(job))).status, 200);
  });

  test('a job that never got to its system has no files, and none are missing', async () => {
    const { body: ended } = await me.submit('/jobs/hpc_one/', { command: 'true' });
    await me.waitUntilFinished(ended);
    // As of a job that was cancelled before its submission, which is too soon for a test.
    await queryDatabase(server.data, 'update jobs set engine_ref = null where job_id = ?', [ended.job_id]);
    rmSync(join(server.data, 'workspaces', ended.job_id), { recursive: true });
    assert.deepEqual((await me.get(filesOf(ended))).body, []);
    const headers = { authorization: `Bearer ${server.userToken}` };
    assert.equal((await fetch(`${server.url}${jobPath(ended)}log/`, { headers })).status, 200);
  });

  test('the files and the log of a deleted job are 410', async () => {
    assert.equal((await me.send('DELETE', jobPath(job))).status, 200);
    for (const path of [...kinds.map((kind) => filesOf(job) + kind), `${jobPath(job)}log/`]) {
      const { status, body } = await me.get<Problem>(path);
      assert.deepEqual([status, body.code], [410, 'files_deleted'], path);
    }
  });
});
