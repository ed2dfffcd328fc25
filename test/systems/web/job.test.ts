import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { jobPath, releaseJob, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import { freePorts } from '../../support/ports.ts';
import { firstUsers } from '../../support/server.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { expectAccessible, launchBrowser, type WebBrowser } from '../../support/web-page.ts';

let server: ServerProcess;
let browser: WebBrowser;
let me: Caller;
let page: Page;

before(async () => {
  // A server that is started again needs the same port.
  const [port] = await freePorts(1);
  [server, browser] = await Promise.all([spawnServer({ env: { BURSAR_PORT: `${port}` } }), launchBrowser()]);
  me = createCaller(server.url, server.userToken);
  page = await browser.open(server, firstUsers.user);
});

after(async () => {
  try {
    await browser?.close();
  } finally {
    await server?.dispose();
  }
});

async function submit(command: string, payload: Record<string, unknown> = {}, zip?: Uint8Array): Promise<Job> {
  const { status, text, body } = await me.submit('/jobs/hpc_one/', { command, runtime: 1, ...payload }, zip);
  assert.equal(status, 201, text);
  return body;
}

const open = (job: Job, query = '', window = page) => window.goto(`/app${jobPath(job).slice(0, -1)}${query}`);

test('a running job: live timeline, cost and cancellation', async () => {
  const job = await submit(waitForGoScript, {
    title: 'Cancelled one',
    node_number: 2,
    core_number: 3,
    tags: ['alpha'],
  });
  await waitForStage(me, job, 'RUNNING');
  await open(job);
  await page.getByRole('heading', { name: 'Cancelled one' }).waitFor();
  await page.getByText(/running for \d+ (s|min)/).waitFor();
  await page.getByText(/Runs for .* of 1 h/).waitFor();
  await page.getByText('2 nodes × 3 cores').waitFor();
  await page.getByText('Holds 6 core-h').waitFor();
  await expectAccessible(page);

  await page.getByRole('button', { name: 'Cancel the job' }).click();
  const dialog = page.getByRole('dialog', { name: 'Cancel this job?' });
  await dialog.waitFor();
  await expectAccessible(page);
  await dialog.getByRole('button', { name: 'Cancel the job' }).click();
  await page.getByRole('listitem').filter({ hasText: 'Cancelled' }).waitFor();
  await page.getByText(/ran for \d+ (s|min)/).waitFor();
  await page.getByText('The job is charged for the time that it ran').waitFor();
  assert.equal(await page.getByText('Why it failed').count(), 0, 'a cancellation by the owner is no failure');
});

test('a failed job says why, with the last lines of stderr, and can be repeated elsewhere', async () => {
  const command = `echo started; printf "it's \\033[31mbroken\\033[0m\\n" >&2; exit 3`;
  const job = await me.waitUntilFinished(await submit(command, { title: 'Broken one' }));
  await open(job);
  const card = page.getByRole('region', { name: 'Why it failed' });
  await card.getByText('The program of the job ended with an error.').waitFor();
  await card.getByText("it's broken", { exact: true }).waitFor();
  await card.getByText('Exit code').waitFor();
  await card.getByRole('link', { name: 'Open the log' }).click();
  await page.waitForURL(/tab=log&stream=stderr/);
  await page.getByRole('region', { name: 'stderr of the job' }).getByText("it's broken").waitFor();
  await expectAccessible(page);

  await page.getByRole('button', { name: 'Copy as…' }).click();
  const curl = page.getByRole('region', { name: 'curl' }).locator('pre');
  await curl.waitFor();
  await expectAccessible(page);
  const text = (await curl.textContent()) ?? '';
  assert.match(text, /Bearer \$BURSAR_TOKEN/);
  assert.ok(!text.includes(server.userToken));
  await page.getByRole('button', { name: 'Close' }).click();
  await page.getByRole('link', { name: 'Resubmit' }).click();
  await page.waitForURL(/\/submit\?from=/);
});

test('the log follows a job across a restart of the server, and pauses when the user scrolls up', async () => {
  // Only the lines on the screen are elements: line 60 must stay the last one until the page shows it.
  const first = `seq -f 'line %g' 60; while [ ! -e more ] && [ -d "$PWD" ]; do sleep 0.05; done`;
  const more = `while [ ! -e go ] && [ -d "$PWD" ]; do i=$((i+1)); echo "line $i"; sleep 0.05; done; echo "last line"`;
  const script = `${first}; i=60; ${more}`;
  const job = await submit(script, { title: 'Followed' });
  await open(job, '?tab=log');
  await page.getByText('line 60', { exact: true }).waitFor();
  // A page that renders new lines in the same frame would scroll to the end again.
  const log = page.getByRole('region', { name: 'stdout of the job' });
  await log.focus();
  await page.keyboard.press('Home');
  await page.getByText('Paused, because you scrolled up.').waitFor();
  await log.getByText('line 1', { exact: true }).waitFor();
  writeFileSync(join(server.data, 'workspaces', job.job_id, 'files', 'more'), '');

  const { port } = new URL(server.url);
  await server.kill();
  await page.getByText('No connection: trying again.').waitFor();
  const restarted = await spawnServer({ data: server.data, env: { BURSAR_PORT: port } });
  const { userToken, adminToken } = server;
  server = Object.assign(restarted, { userToken, adminToken });
  await page.getByText('Paused, because you scrolled up.').waitFor();
  releaseJob(server, job);
  await me.waitUntilFinished(job);
  await page.getByText('Complete.').waitFor();
  await page.getByRole('button', { name: 'Go to the end' }).click();
  await log.getByText('last line', { exact: true }).waitFor();

  const { text } = await me.get(`${jobPath(job)}log/`);
  const lines = text.trimEnd().split('\n');
  await page.getByText(`${lines.length.toLocaleString('en')} lines`).waitFor();
  assert.deepEqual(
    lines.slice(0, -1),
    Array.from({ length: lines.length - 1 }, (_, index) => `line ${index + 1}`),
  );
});

test('a long log: only visible lines are elements, search, links to lines, wrapping', async () => {
  const script = `awk 'BEGIN { for (i = 1; i <= 50000; i++) print "row " i (i % 1000 == 0 ? " needle" : "") }'; printf '\\033[32mgreen\\033[0m <b>bold</b>\\n'; printf '%02000d\\n' 7`;
  const job = await me.waitUntilFinished(await submit(script, { title: 'Long' }));
  await open(job, '?tab=log');
  const log = page.getByRole('region', { name: 'stdout of the job' });
  await log.getByText('green <b>bold</b>', { exact: true }).waitFor();
  assert.ok((await log.locator('a').count()) < 200, 'most lines are no elements');

  await page.keyboard.press('/');
  await page.keyboard.type('NEEDLE');
  await page.getByText('50 lines', { exact: true }).waitFor();
  // The search begins at the lines on the screen, and goes on at the other end.
  await page.keyboard.press('Enter');
  await page.getByText('50 of 50 lines').waitFor();
  await page.keyboard.press('Enter');
  await page.getByText('1 of 50 lines', { exact: true }).waitFor();
  await log.getByText('row 1000 needle').waitFor();
  await page.keyboard.press('Shift+Enter');
  await log.getByText('row 50000 needle').waitFor();
  await expectAccessible(page);

  await page.getByLabel('Go to line').fill('1234');
  await page.keyboard.press('Enter');
  await page.waitForURL(/line=1234/);
  await log.getByText('row 1234', { exact: true }).waitFor();
  assert.equal(await log.locator('[aria-current]').textContent(), '1234row 1234');

  await open(job, '?tab=log&line=40000');
  await log.locator('[aria-current]').filter({ hasText: 'row 40000 needle' }).waitFor();
  await page.setViewportSize({ width: 360, height: 740 });
  await log.getByText('row 40000 needle').waitFor();
  await expectAccessible(page);
  await page.setViewportSize({ width: 1280, height: 900 });
});

test('a log that is longer than the page reads is shown from its end, and earlier lines on demand', async () => {
  const job = await me.waitUntilFinished(
    await submit(`yes 0123456789abcdefghijklmnopqrstuvwxyz | head -n 350000; echo end`),
  );
  await open(job, '?tab=log');
  const log = page.getByRole('region', { name: 'stdout of the job' });
  await log.getByText('end', { exact: true }).waitFor();
  await page.getByText(/MB before this are not shown/).waitFor();
  assert.equal(await log.locator('a').count(), 0, 'line numbers are not known');
  await page.getByRole('button', { name: 'Load earlier lines' }).click();
  await page.getByText(/lines, (7\.\d+|8) MB/).waitFor();
  await page.getByRole('button', { name: 'Read from the start' }).click();
  await page.getByText('There is more.').waitFor();
  await page.getByRole('button', { name: 'Read on' }).click();
  await page.getByText('350,001 lines').waitFor();
});
