import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { withDatabase } from '../../support/database.ts';
import { releaseJob, unrunnableScript, waitForGoScript } from '../../support/jobs.ts';
import { storeManyJobs } from '../../support/many-jobs.ts';
import { firstUsers } from '../../support/server.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { until } from '../../support/until.ts';
import { expectAccessible, launchBrowser, type WebBrowser } from '../../support/web-page.ts';
import { waitForNotice } from './notice.ts';

const otherUser = '301777';
const busyUser = '301888';

let server: ServerProcess;
let browser: WebBrowser;
let user: Caller;

before(async () => {
  [server, browser] = await Promise.all([spawnServer(), launchBrowser()]);
  user = createCaller(server.url, server.userToken);
  await server.token(otherUser);
});

after(async () => {
  try {
    await browser?.close();
  } finally {
    await server?.dispose();
  }
});

async function submit(caller: Caller, title: string, command = 'true', payload = {}): Promise<Job> {
  const response = await caller.submit('/jobs/hpc_one/', { command, title, runtime: 0.1, ...payload });
  assert.equal(response.status, 201, response.text);
  return response.body;
}

const rowOf = (page: Page, title: string) => page.getByRole('row').filter({ hasText: title });
const titlesOf = (page: Page) => page.locator('tbody tr td:nth-child(2) > a').allTextContents();
const countRequests = (page: Page) => {
  const urls: string[] = [];
  page.on('request', (request) => request.url().includes('/job-summaries/') && urls.push(request.url()));
  return urls;
};
const waitForTitles = (page: Page, expected: readonly string[]) =>
  until(`jobs ${expected}`, async () => (String(await titlesOf(page)) === String(expected) ? true : undefined));

test('a user without jobs is told how to begin, and sees nothing of the jobs of others', async () => {
  const job = await submit(user, 'Secret job');
  await user.waitUntilFinished(job);
  const page = await browser.open(server, otherUser);
  await page.getByRole('heading', { name: 'No jobs yet' }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'Command line and Python' }).getAttribute('href'), '/clients/');
  await expectAccessible(page);
  await page.goto('/app/jobs?search=Secret');
  await page.getByRole('heading', { name: 'No job matches' }).waitFor();
  // Staff only: the server refuses, and the page shows its message.
  await page.goto('/app/admin/jobs');
  await page.getByRole('alert').waitFor();
  assert.equal(await page.getByText('Secret job').count(), 0);
  await page.context().close();
});

test('a job that another client submits appears, runs and ends on the open page, without a request for each event', async () => {
  const page = await browser.open(server, firstUsers.user);
  await page.getByText('Live', { exact: true }).waitFor();
  const requests = countRequests(page);
  const job = await submit(user, 'Followed', waitForGoScript, { tags: ['live'] });
  const row = rowOf(page, 'Followed');
  await row.getByText('Running').waitFor();
  await row.getByText(/ s of 6 min/).waitFor();
  await row.getByText('up to 6 core-min').waitFor();
  await row.getByRole('link', { name: 'Only jobs with the tag live' }).waitFor();
  // An event during a read marks the page for another one, so that each of the three events so far may have caused one.
  assert.ok(requests.length <= 3, `${requests.length} requests for one new job`);

  // Now no read is under way, and none is due.
  await page.reload();
  await page.getByText('Live', { exact: true }).waitFor();
  await row.getByText('Running').waitFor();
  const count = requests.length;
  releaseJob(server, job);
  await row.getByText('Successful').waitFor();
  await row.getByText(/core-(s|min)$/).waitFor();
  assert.equal(requests.length, count, 'the end of a job that is on the page needs no request');
  await expectAccessible(page);
  await page.context().close();
});

test('filters, tags and search are in the address, and the back button undoes them', async () => {
  await user.waitUntilFinished(await submit(user, 'Broken', 'exit 3', { tags: ['paper'] }));
  const page = await browser.open(server, firstUsers.user);
  await page.getByRole('link', { name: 'Failed', exact: true }).click();
  await waitForTitles(page, ['Broken']);
  await page.getByRole('link', { name: 'All', exact: true }).click();
  await rowOf(page, 'Followed').waitFor();
  await page.getByRole('link', { name: 'Only jobs with the tag paper' }).click();
  await waitForTitles(page, ['Broken']);
  assert.match(page.url(), /tag=paper/);
  await page.getByRole('link', { name: /^Tag paper/ }).click();
  await rowOf(page, 'Followed').waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('FOLLOW');
  // A search for its beginning, by slow keys, shows the same jobs.
  await page.waitForURL(/search=FOLLOW$/);
  await waitForTitles(page, ['Followed']);
  await page.goBack();
  await rowOf(page, 'Broken').waitFor();
  assert.equal(await page.getByRole('searchbox').inputValue(), '');
  await page.goForward();
  await waitForTitles(page, ['Followed']);
  await page.getByRole('searchbox').fill('no such job');
  await page.getByRole('link', { name: 'Clear all filters' }).click();
  await rowOf(page, 'Broken').waitFor();
  await page.getByLabel('System', { exact: true }).selectOption('hpc_two');
  await page.getByRole('heading', { name: 'No job matches' }).waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'No job matches' }).waitFor();
  await page.context().close();
});

test('several jobs are selected by shift and by keys, and are cancelled after one confirmation', async () => {
  for (const number of [1, 2, 3]) await submit(user, `Member ${number}`, waitForGoScript);
  const page = await browser.open(server, firstUsers.user);
  await rowOf(page, 'Member 1').waitFor();
  await page.getByLabel('Select Member 3').click();
  await page.getByLabel('Select Broken').click({ modifiers: ['Shift'] });
  await page.getByText('4 selected').waitFor();
  await page.getByRole('button', { name: 'Cancel…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Cancel jobs' });
  await dialog.getByText('3 jobs will be cancelled').waitFor();
  await dialog.getByText('1 job skipped: ended already.').waitFor();
  await expectAccessible(page);
  await dialog.getByRole('button', { name: 'Cancel 3 jobs' }).click();
  for (const number of [1, 2, 3]) await rowOf(page, `Member ${number}`).getByText('Canceled').waitFor();
  await page.getByText('Select all').waitFor();

  await page.getByLabel('Select Member 2').focus();
  await page.keyboard.press('Space');
  await page.keyboard.press('Shift+ArrowDown');
  await page.getByText('2 selected').waitFor();
  await page.getByRole('button', { name: 'Delete…' }).click();
  await page.getByRole('button', { name: 'Delete files of 2 jobs' }).click();
  for (const number of [1, 2]) await rowOf(page, `Member ${number}`).getByText('Deleted').waitFor();
  assert.equal(await rowOf(page, 'Member 3').getByText('Deleted').count(), 0);
  await page.context().close();
});

test('rows keep their places under the mouse, and new jobs wait for it to leave', async () => {
  const page = await browser.open(server, firstUsers.user);
  await rowOf(page, 'Broken').hover();
  await submit(user, 'Newcomer');
  await page.getByRole('button', { name: 'Show 1 new job' }).waitFor();
  assert.equal(await rowOf(page, 'Newcomer').count(), 0);
  await page.getByRole('heading', { level: 1 }).hover();
  await rowOf(page, 'Newcomer').waitFor();
  await page.context().close();
});

test('a burst of jobs causes few requests', async () => {
  const page = await browser.open(server, firstUsers.user);
  await page.getByText('Live', { exact: true }).waitFor();
  const requests = countRequests(page);
  const startedAt = Date.now();
  // They end at once, and nothing of them runs.
  const { command, zip } = unrunnableScript;
  const payload = { command, title: 'Burst', runtime: 0.1 };
  await Promise.all(Array.from({ length: 25 }, () => user.submit('/jobs/hpc_one/', payload, zip)));
  const ended = page.getByRole('row').filter({ hasText: 'Burst' }).filter({ hasText: 'Failed' });
  await until('the end of the burst on the page', async () => ((await ended.count()) === 25 ? true : undefined));
  const seconds = Math.ceil((Date.now() - startedAt) / 1000);
  // One a second at most, however many events there are: two a job.
  assert.ok(requests.length <= seconds + 2, `${requests.length} requests in ${seconds} s`);
  await page.context().close();
});

test('100,000 jobs: pages, the way back, and a search', async () => {
  await server.token(busyUser);
  const many = { owner: busyUser, hpc: 'hpc_one', project: 'proj_hpc_one_01', count: 100_000 };
  await withDatabase(server.data, (db) => storeManyJobs(db, many));
  const page = await browser.open(server, busyUser);
  await page.getByText('Page 1').waitFor();
  assert.equal((await titlesOf(page)).length, 50);
  const firstPage = await titlesOf(page);
  await page.getByRole('link', { name: 'Older' }).click();
  await page.getByText('Page 2').waitFor();
  await page.getByRole('link', { name: 'Older' }).click();
  await page.getByText('Page 3').waitFor();
  await page.reload();
  await page.getByRole('link', { name: 'Newer' }).click();
  await page.getByText('Page 2').waitFor();
  await page.goBack();
  await page.getByText('Page 3').waitFor();
  await page.goBack();
  await page.goBack();
  await page.getByText('Page 1').waitFor();
  await waitForTitles(page, firstPage);
  await page.getByRole('searchbox').fill('MANY-77777');
  await until('the job that was searched', async () =>
    (await page.locator('tbody tr').count()) === 1 ? true : undefined,
  );
  await page.context().close();
});

test('staff see the jobs of all users, filter by user, and cancel with a reason', async () => {
  const other = createCaller(server.url, await server.token(otherUser));
  await submit(other, 'Of another', waitForGoScript);
  const page = await browser.open(server, firstUsers.admin, { path: 'admin/jobs' });
  await rowOf(page, 'Of another').waitFor();
  const href = await page.getByRole('link', { name: 'Of another' }).getAttribute('href');
  assert.match(href ?? '', /admin=true/);
  await page.getByRole('textbox', { name: 'User' }).fill(otherUser);
  await waitForTitles(page, ['Of another']);
  await expectAccessible(page);
  await page.getByText('Select all').click();
  await page.getByRole('button', { name: 'Cancel…' }).click();
  const confirm = page.getByRole('button', { name: 'Cancel 1 job' });
  assert.equal(await confirm.isDisabled(), true);
  await page.getByLabel('Reason').fill('maintenance');
  await Promise.all([waitForNotice(page, 'Cancelling 1 job'), confirm.click()]);
  await until('the cancelled job', async () => {
    await page.getByRole('button', { name: 'Refresh' }).click();
    return (await rowOf(page, 'Of another').getByText('Cancelled by the staff').count()) === 1 ? true : undefined;
  });
  await page.context().close();
});

test('a manager sees the jobs of the project, and nothing of other projects', async () => {
  const admin = createCaller(server.url, server.adminToken);
  const body = JSON.stringify({ status: 'active', role: 'manager', reason: 'leads the project' });
  const json = { 'content-type': 'application/json' };
  const member = `/admin/projects/hpc_one/proj_hpc_one_01/members/${otherUser}/`;
  const response = await admin.send('PUT', member, json, body);
  assert.equal(response.status, 200, response.text);
  const page = await browser.open(server, otherUser, { path: 'admin/jobs?search=Followed' });
  await waitForTitles(page, ['Followed']);
  assert.equal(await page.getByLabel('Project', { exact: true }).inputValue(), 'proj_hpc_one_01');
  await page.getByText('Select all').click();
  await page.getByRole('button', { name: 'Delete…' }).click();
  await page.getByRole('button', { name: 'Back' }).click();
  await page.goto('/app/admin/jobs?hpc=hpc_two&project=proj_hpc_two_01');
  await page.getByRole('alert').waitFor();
  await page.context().close();
});

test('the list is readable in a narrow and dark window', async () => {
  const page = await browser.open(server, firstUsers.user, { width: 360, colorScheme: 'dark' });
  await rowOf(page, 'Burst').first().waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false);
  await expectAccessible(page);
  await page.context().close();
});
