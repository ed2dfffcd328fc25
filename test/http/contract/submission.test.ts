import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { ApiResponse, Caller, Job } from '../../support/api.ts';
import type { OpenApi, Problem } from '../../support/contract.ts';
import { bashZip, submitShellLine } from '../../support/jobs.ts';
import { createZip } from '../../support/zip.ts';
import { disposition, openSubmissionFixture, type SubmissionFixture } from './submission-fixture.ts';

// The requirements of the interface on submissions (4.2): paths and the two headers.

let fixture: SubmissionFixture;
let me: Caller;
let document: OpenApi;
let post: SubmissionFixture['post'];
let readState: SubmissionFixture['readState'];

before(async () => {
  fixture = await openSubmissionFixture();
  ({ me, document, post, readState } = fixture);
});
after(() => fixture.server.dispose());

/** Asserts that the submission was accepted, and waits for the end of the job. */
async function assertAccepted(response: ApiResponse<Job>): Promise<Job> {
  assert.equal(response.status, 201, response.text);
  await me.waitUntilFinished(response.body);
  return response.body;
}

test('a long script is accepted', async () => {
  const zip = await createZip({ 'main.sh': `echo begun\n${'# as many words as it takes\n'.repeat(5000)}echo done\n` });
  const job = await me.waitUntilFinished(
    await assertAccepted(await me.submit('/jobs/hpc_two/', { tool: 'BASH' }, zip)),
  );
  assert.equal(job.stage, 'COMPLETED');
});

test('4.2 project_name is optional: when it is omitted, the default project of the system is used', async () => {
  const one = await assertAccepted(await submitShellLine(me, '/jobs/hpc_one/', 'true'));
  const two = await assertAccepted(await submitShellLine(me, '/jobs/hpc_two/', 'true'));
  assert.deepEqual([one.project_name, two.project_name], ['proj_hpc_one_01', 'proj_hpc_two_01']);
});

for (const [hpc, project] of [
  ['hpc_one', 'proj_hpc_one_01'],
  ['hpc_two', 'proj_hpc_two_01'],
  ['hpc_two', 'proj_hpc_two_02'],
] as const) {
  test(`4.2 a job is accepted inside the named project ${project}`, async () => {
    const job = await assertAccepted(await submitShellLine(me, `/jobs/${hpc}/${project}/`, 'true'));
    const quota = await me.quota(hpc, project);
    assert.deepEqual([job.project, job.project_name, job.project_hpc], [quota.project, project, hpc.toUpperCase()]);
  });
}

test('201 has a Location header, which is described and is the path of the job', async () => {
  for (const path of ['/jobs/hpc_one/', '/jobs/hpc_two/proj_hpc_two_02/']) {
    const { headers, body } = await submitShellLine(me, path, 'true');
    const location = headers.get('location') ?? '';
    assert.match(location, /^\/jobs\//);
    assert.equal((await me.get<Job>(location)).body.job_id, body.job_id);
  }
  for (const path of ['/jobs/{hpc}/', '/jobs/{hpc}/{project_name}/']) {
    const created = document.paths[path]?.post?.responses['201'];
    assert.ok(created && 'headers' in created && created.headers?.Location);
  }
});

test('4.2 hpc is required, and paths below a project accept no POST', async () => {
  const allowed = { '/jobs/': 'GET, HEAD', '/jobs/hpc_one/proj_hpc_one_01/X/': 'GET, HEAD, DELETE' };
  for (const [path, allow] of Object.entries(allowed)) {
    const { status, headers } = await me.submit(path, { command: 'true' });
    assert.equal(status, 405, path);
    assert.equal(headers.get('allow'), allow);
  }
});

test('4.2 a submission to a system or a project that does not exist is 404', async () => {
  for (const [path, code] of [
    ['/jobs/hpc_three/', 'system_unknown'],
    ['/jobs/HPC_ONE/', 'system_unknown'],
    ['/jobs/hpc_one/proj_hpc_two_01/', 'project_unknown'],
    ['/jobs/hpc_one/proj_hpc_one_02/', 'project_unknown'],
  ] as const) {
    const { status, body } = await me.submit(path, { command: 'true' });
    assert.deepEqual([status, (body as unknown as Problem).code], [404, code], path);
  }
});

// The headers.

for (const header of ['Content-Disposition', 'Payload'] as const) {
  test(`4.2 the header ${header} is required: without it the response is 400 and names it`, async () => {
    const headers: Record<string, string> = { 'Content-Disposition': disposition, Payload: '{"command": "true"}' };
    delete headers[header];
    const { status, body } = await post('/jobs/hpc_one/', headers);
    assert.equal(status, 400);
    assert.match(body.detail, new RegExp(header));
  });
}

test('4.2 Content-Disposition has the form attachment; filename=<file.zip>, in all valid variants', async () => {
  for (const value of [
    'attachment; filename=file.zip',
    'attachment;filename=file.zip',
    'attachment; filename="my file.zip"',
    'Attachment; FileName="FILE.ZIP"',
    "attachment; filename*=UTF-8''na%C3%AFve.zip",
  ]) {
    const headers = { 'content-disposition': value, payload: '{"tool": "BASH"}' };
    const response = await post('/jobs/hpc_two/', headers, bashZip);
    assert.equal(response.status, 201, value);
  }
});

test('4.2 Content-Disposition: anything but an attachment with a zip file name is 400', async () => {
  const before = await readState();
  for (const value of [
    'attachment',
    'inline; filename=file.zip',
    'attachment; filename=',
    'attachment; filename=.zip',
    'attachment; filename=file.tar.gz',
    'attachment; filename=../file.zip',
    'attachment; filename="a/b.zip"',
    'file.zip',
    ';;;',
  ]) {
    const { status, body } = await post('/jobs/hpc_one/', {
      'content-disposition': value,
      payload: '{"command": "true"}',
    });
    assert.deepEqual([status, body.code], [400, 'invalid_content_disposition'], value);
  }
  assert.deepEqual(await readState(), before);
});
