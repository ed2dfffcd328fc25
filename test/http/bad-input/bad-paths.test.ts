import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { createCaller, type Job } from '../../support/api.ts';
import { jobPath } from '../../support/jobs.ts';
import { assertCleanLog, readLogLines } from '../../support/logs.ts';
import {
  assertAllProblemsGaveAdvice,
  assertProblem,
  type StateSnapshot,
  takeStateSnapshot,
} from '../../support/problems.ts';
import { bearerHeader, type HeaderLine, sendRawRequest } from '../../support/raw-http.ts';
import { startServer, type TestServer } from '../../support/server.ts';

let server: TestServer;
let state: StateSnapshot;
let othersJob: Job;
let ownJob: Job;

before(async () => {
  server = await startServer();
  othersJob = (await createCaller(server.url, server.adminToken).submit('/jobs/hpc_one/', { command: 'true' })).body;
  ownJob = (await createCaller(server.url, server.userToken).submit('/jobs/hpc_one/', { command: 'true' })).body;
  state = await takeStateSnapshot(server, [server.userToken, server.adminToken]);
  await state.update();
});
after(() => server.dispose());
afterEach(() => state.assertUnchanged());

const read = (path: string) => sendRawRequest(server.url, { path, headers: [bearerHeader(server.userToken)] });

/** Sends a submission that is valid except for its path. */
function post(path: string) {
  const command: HeaderLine = ['payload', '{"command": "echo hello"}'];
  const disposition: HeaderLine = ['content-disposition', 'attachment; filename=job.zip'];
  return sendRawRequest(server.url, {
    method: 'POST',
    path,
    headers: [bearerHeader(server.userToken), disposition, command],
  });
}

/** Used below /jobs/ and /quotas/, which look up names by the same rules. */
const unknownSystems: [string, string][] = [
  ['an unknown system', 'hpc_six'],
  ['a system in upper case', 'HPC_ONE'],
  ['a system in mixed case', 'Hpc_one'],
  ['the beginning of a system', 'hpc_on'],
  ['a system with an extra letter', 'hpc_onee'],
  ['an empty system', ''],
  ['a system and an encoded slash', 'hpc_one%2F'],
  ['a system and a project with an encoded slash', 'hpc_one%2Fproj_hpc_one_01'],
  ['a system and a backslash', 'hpc_one%5C'],
  ['two encoded dots', '%2e%2e'],
  ['two dots', '..'],
  ['one dot', '.'],
  ['dots and encoded slashes', '..%2F..%2Fetc%2Fpasswd'],
  ['dots encoded twice', '%252e%252e'],
  ['a NUL', '%00'],
  ['a system with a NUL at its end', 'hpc_one%00'],
  ['a system with a line feed at its end', 'hpc_one%0A'],
  ['a system with a carriage return and a header', 'hpc_one%0D%0ASet-Cookie:%20a=b'],
  ['a system with a space at its end', 'hpc_one%20'],
  ['a system with a parameter', 'hpc_one;version=1'],
  ['the property __proto__', '__proto__'],
  ['the property constructor', 'constructor'],
  ['SQL', encodeURIComponent("hpc_one' or '1'='1")],
  ['a wildcard', '%25'],
  ['an asterisk', '*'],
  ['a system in fullwidth letters', encodeURIComponent('\uff48\uff50\uff43_one')],
];

const unknownProjects: [string, string][] = [
  ['an unknown project', 'proj_hpc_one_99'],
  ['a project of the other system', 'proj_hpc_two_01'],
  ['a project in upper case', 'PROJ_HPC_ONE_01'],
  ['an empty project', ''],
  ['a project and an encoded slash', 'proj_hpc_one_01%2F'],
  ['a project of two dots', '%2e%2e'],
  ['a project with a NUL at its end', 'proj_hpc_one_01%00'],
  ['a project with a space in front', '%20proj_hpc_one_01'],
  ['a project named __proto__', '__proto__'],
  ['a project of SQL', encodeURIComponent("x' or '1'='1")],
  ['a project that is a wildcard', 'proj%25'],
  ['the number of a project', '1'],
];

describe('systems', () => {
  test('an unknown system is unknown on every path', async () => {
    for (const path of ['/jobs/hpc_six/', '/jobs/hpc_six/proj_hpc_one_01/', '/quotas/hpc_six/']) {
      assertProblem(await read(path), { status: 404, code: 'system_unknown', message: /hpc_one, hpc_two/ });
    }
    const single = await read(`/jobs/hpc_six/proj_hpc_one_01/${ownJob.job_id}/`);
    assertProblem(single, { status: 404, code: 'system_unknown' });
    assertProblem(await post('/jobs/hpc_six/proj_hpc_one_01/'), { status: 404, code: 'system_unknown' });
  });

  for (const [name, segment] of unknownSystems) {
    test(`${name} is unknown, and accepts no jobs`, async () => {
      const expected = { status: 404, code: 'system_unknown', message: /hpc_one, hpc_two/ };
      assertProblem(await read(`/quotas/${segment}/`), expected);
      assertProblem(await post(`/jobs/${segment}/`), expected);
    });
  }
});

describe('projects', () => {
  test('an unknown project is unknown on every path', async () => {
    const expected = { status: 404, code: 'project_unknown' };
    for (const path of ['/jobs/hpc_one/none/', '/quotas/hpc_one/none/', `/jobs/hpc_one/none/${ownJob.job_id}/`]) {
      assertProblem(await read(path), expected);
    }
  });

  for (const [name, segment] of unknownProjects) {
    test(`${name} is unknown, and accepts no jobs`, async () => {
      const expected = { status: 404, code: 'project_unknown' };
      assertProblem(await read(`/jobs/hpc_one/${segment}/`), { ...expected, message: /GET \/quotas\/hpc_one\// });
      assertProblem(await post(`/jobs/hpc_one/${segment}/`), expected);
    });
  }
});

describe('jobs', () => {
  const unknownJobs: [string, () => string][] = [
    ['an unknown identifier', () => '00000000-0000-4000-8000-000000000000'],
    ['an identifier of the other form', () => `BURSAR-JOB-BASH-${'A'.repeat(32)}`],
    ["another user's job", () => othersJob.job_id],
    ['an identifier in lower case', () => ownJob.job_id.toLowerCase()],
    ['the record number', () => String(ownJob.id)],
    ['an identifier without hyphens', () => ownJob.job_id.replaceAll('-', '')],
    ['the beginning of an identifier', () => ownJob.job_id.slice(0, -1)],
    ['an identifier with an extra letter', () => `${ownJob.job_id}A`],
    ['an identifier with a NUL at its end', () => `${ownJob.job_id}%00`],
    ['an identifier with a space at its end', () => `${ownJob.job_id}%20`],
    ['an identifier and an encoded slash', () => `${ownJob.job_id}%2F`],
    ['an empty identifier', () => ''],
    ['two encoded dots', () => '%2e%2e'],
    ['a path out of the workspaces', () => `..%2F..%2Fworkspaces%2F${ownJob.job_id}`],
    ['a wildcard', () => '%25'],
    ['SQL', () => encodeURIComponent("' or '1'='1")],
    ['the property __proto__', () => '__proto__'],
    ['an identifier in another script', () => encodeURIComponent('\u30b8\u30e7\u30d6')],
    ['an identifier of 200 characters', () => 'A'.repeat(200)],
    ['an identifier of 201 characters', () => 'A'.repeat(201)],
    ['an identifier of 1 kB', () => 'A'.repeat(1000)],
    ['an identifier of 8 kB', () => 'A'.repeat(8000)],
  ];
  for (const [name, jobId] of unknownJobs) {
    test(`${name} is not a job of the caller`, async () => {
      const response = await read(`/jobs/hpc_one/proj_hpc_one_01/${jobId()}/`);
      assertProblem(response, { status: 404, code: 'job_unknown', message: /no job with this identifier/ });
    });
  }

  test('a job is not found on another system or in another project', async () => {
    assert.equal((await read(jobPath(ownJob))).status, 200);
    for (const project of ['hpc_two/proj_hpc_two_01', 'hpc_two/proj_hpc_two_02']) {
      const response = await read(`/jobs/${project}/${ownJob.job_id}/`);
      assertProblem(response, { status: 404, code: 'job_unknown' });
    }
  });

  test("another user's job gets the same response as a job that does not exist, even for administrators", async () => {
    const unknown = assertProblem(await read('/jobs/hpc_one/proj_hpc_one_01/NONE/'), {
      status: 404,
      code: 'job_unknown',
    });
    const other = assertProblem(await read(jobPath(othersJob)), { status: 404, code: 'job_unknown' });
    assert.deepEqual({ ...other, request_id: '' }, { ...unknown, request_id: '' });
    const admin = await sendRawRequest(server.url, {
      path: jobPath(ownJob),
      headers: [bearerHeader(server.adminToken)],
    });
    assertProblem(admin, { status: 404, code: 'job_unknown' });
  });
});

describe('unknown paths', () => {
  for (const path of [
    '/',
    '//',
    '/job/',
    '/JOBS/',
    '/jobs%2F',
    '/jobs%2Fhpc_one/',
    '//jobs/',
    '/./jobs/',
    '/quota/',
    '/admin/',
    '/admin/nothing/',
    '/%2e%2e/%2e%2e/etc/passwd',
    '/../../etc/passwd',
    '/docs/..%2F..%2Fpackage.json',
    '/docs/static/..%2F..%2F..%2Fpackage.json',
    '/docs/%2e%2e/%2e%2e/package.json',
    '/jobs/hpc_one/proj_hpc_one_01/X/Y/',
    '/quotas/hpc_one/proj_hpc_one_01/X/',
    '/admin/quotas/301330/hpc_one/proj_hpc_one_01/X/',
    `/${'a'.repeat(1000)}/`,
    `/${'a'.repeat(8000)}/`,
    `/${'a/'.repeat(4000)}`,
    `/jobs${'/'.repeat(8000)}`,
  ]) {
    test(`${path.slice(0, 60)} (${path.length} characters) is not found`, async () => {
      assertProblem(await read(path), { status: 404, code: 'not_found', message: /nothing at this path/ });
      // Browsers read something there.
      const isRoute = /^\/+$|^\/docs\/static\//.test(path);
      assertProblem(
        await post(path),
        isRoute ? { status: 405, code: 'method_not_allowed' } : { status: 404, code: 'not_found' },
      );
    });
  }
});

describe('paths that are too long', () => {
  for (const size of [201, 1000, 8000]) {
    test(`names of ${size} characters are unknown`, async () => {
      const name = 'a'.repeat(size);
      assertProblem(await read(`/jobs/${name}/`), { status: 404, code: 'system_unknown' });
      assertProblem(await post(`/jobs/${name}/`), { status: 404, code: 'system_unknown' });
      assertProblem(await read(`/quotas/hpc_one/${name}/`), { status: 404, code: 'project_unknown' });
      assertProblem(await post(`/jobs/hpc_one/${name}/`), { status: 404, code: 'project_unknown' });
    });
  }

  test('a path of 20 kB exceeds the limit of the headers', async () => {
    for (const path of [`/jobs/${'a'.repeat(20_000)}/`, `/jobs/?title=${'a'.repeat(20_000)}`]) {
      assertProblem(await read(path), { status: 431, code: 'headers_too_large', message: /16 KiB/ });
      assertProblem(await post(path), { status: 431, code: 'headers_too_large', message: /[Ss]horten/ });
    }
  });
});

describe('paths that are malformed', () => {
  const expected = { status: 404, code: 'not_found', message: /path is not well-formed/ };

  for (const segment of ['%', '%z', '%zz', '%1', '%E0%A4', '%ff', '%C0%AF', '%ED%A0%80', '%u0041', 'hpc_one%']) {
    test(`${segment} is not a valid percent-encoding`, async () => {
      for (const path of [`/jobs/${segment}/`, `/jobs/hpc_one/${segment}/`, `/quotas/${segment}/`]) {
        assertProblem(await read(path), expected);
      }
      assertProblem(await read(`/jobs/hpc_one/proj_hpc_one_01/${segment}/`), expected);
      assertProblem(await post(`/jobs/${segment}/`), expected);
    });
  }

  test('a malformed path is logged with the request id of its response', async () => {
    const { request_id: reqId } = assertProblem(await read('/jobs/%zz/'), expected);
    const line = (await readLogLines(server)).find((entry) => entry.reqId === reqId);
    assert.equal(line?.status, 404);
  });
});

test('all problems of this file say what to do', () => assertAllProblemsGaveAdvice());

test('the log is structured, and contains request ids and no tokens', async () => {
  await assertCleanLog(server, [server.userToken, server.adminToken]);
});
