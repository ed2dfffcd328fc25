import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type AccountingFixture, openAccountingFixture } from '../../support/accounting-fixture.ts';
import type { ApiResponse, Caller, Job } from '../../support/api.ts';
import type { Problem } from '../../support/contract.ts';
import { cancelJob, listStoredFiles, waitForGoScript } from '../../support/jobs.ts';
import type { LedgerVerification, Quote } from '../../support/ledger.ts';
import { createZip } from '../../support/zip.ts';

const userLimit = 4;
const projectLimit = 6;
const smallProjectLimit = 1;

describe('unfinished jobs', () => {
  let fixture: AccountingFixture;
  let first: Caller;
  let second: Caller;
  let third: Caller;
  let sleepingTool: Buffer;
  before(async () => {
    sleepingTool = await createZip({ 'main.sh': waitForGoScript });
    fixture = await openAccountingFixture({
      adjust: (config) => {
        Object.assign(config, { limits: { unfinishedJobs: userLimit, projectUnfinishedJobs: projectLimit } });
        const smallProject = config.systems.hpc_two?.projects[1];
        assert.ok(smallProject);
        smallProject.unfinishedJobs = smallProjectLimit;
      },
    });
    [first, second, third] = [await fixture.user('1001'), await fixture.user('1002'), await fixture.user('1003')];
  });
  after(() => fixture.dispose());

  const submit = (caller: Caller) => caller.submit('/jobs/hpc_one/', { command: waitForGoScript, runtime: 1 });
  const submitToSmallProject = (caller: Caller) =>
    caller.submit('/jobs/hpc_two/proj_hpc_two_02/', { tool: 'BASH' }, sleepingTool);
  const countAccepted = (responses: ApiResponse[]) => responses.filter(({ status }) => status === 201).length;
  const quote = async (caller: Caller) => {
    const headers = { payload: JSON.stringify({ command: 'true' }) };
    return (await caller.send('POST', '/quotes/hpc_one/', headers)).body as Quote;
  };

  function assertRefused(response: ApiResponse, limit: number, message: RegExp): void {
    const { code, detail, limit: reported } = response.body as Problem & { limit: number };
    assert.deepEqual([response.status, code, reported], [429, 'too_many_jobs', limit]);
    assert.match(detail, message);
    assert.ok(Number(response.headers.get('retry-after')) > 0);
  }

  const jobs: Job[] = [];
  test('of one user are limited, however many submissions arrive at once, and in all projects together', async () => {
    const responses = await Promise.all(Array.from({ length: 3 * userLimit }, () => submit(first)));
    jobs.push(...responses.filter(({ status }) => status === 201).map(({ body }) => body));
    assert.equal(jobs.length, userLimit);
    for (const response of responses.filter(({ status }) => status !== 201)) {
      assertRefused(response, userLimit, /^You have 4 unfinished jobs, and the limit is 4\. Wait .* or cancel some\.$/);
    }
    assertRefused(await submitToSmallProject(first), userLimit, /^You have 4 unfinished jobs/);
    assert.equal(listStoredFiles(fixture.server).filter((name) => name.endsWith('.zip')).length, 0);
  });

  test('that would exceed the limit are announced by the quote', async () => {
    const { accepted, reason } = await quote(first);
    assert.deepEqual([accepted, reason?.slice(0, 26)], [false, 'You have 4 unfinished jobs']);
    assert.equal((await quote(second)).accepted, true);
  });

  test('of one project are limited for all its users together', async () => {
    const responses = await Promise.all([second, third, second, third].map(submit));
    assert.equal(countAccepted(responses), projectLimit - userLimit);
    for (const response of responses.filter(({ status }) => status !== 201)) {
      assertRefused(response, projectLimit, /^The users of proj_hpc_one_01 have 6 unfinished jobs together/);
    }
  });

  test('make room for others when they end, and the counters stay right', async () => {
    const [job] = jobs;
    assert.ok(job);
    await cancelJob(first, job);
    const responses = [await submit(first), await submit(second)];
    assert.deepEqual(
      responses.map(({ status }) => status),
      [201, 429],
    );
    const { body } = await fixture.admin.get<LedgerVerification>('/admin/ledger/verification/');
    assert.deepEqual(body.problems, []);
    await fixture.tamper("update users set unfinished_jobs = 9 where id = '1002'");
    const { body: wrong } = await fixture.admin.get<LedgerVerification>('/admin/ledger/verification/');
    assert.match(wrong.problems.join(), /^user 1002: counts 9 unfinished jobs, but has [12]$/);
  });

  test('have a limit of their own in a project that configures one', async () => {
    const responses = [await submitToSmallProject(third), await submitToSmallProject(third)];
    assert.equal(responses[0]?.status, 201);
    assertRefused(responses[1] as ApiResponse, smallProjectLimit, /^The users of proj_hpc_two_02 have 1 unfinished/);
  });
});
