import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { type Caller, createCaller } from '../../support/api.ts';
import { runThroughAllStages } from '../../support/jobs.ts';
import { type Statement, topUp, withdrawDownTo } from '../../support/ledger.ts';
import { firstUsers } from '../../support/server.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { expectAccessible, launchBrowser, type WebBrowser } from '../../support/web-page.ts';

const statementPath = '/quotas/hpc_one/proj_hpc_one_01/statement/';
const statementPage = 'quotas/hpc_one/proj_hpc_one_01';

let server: ServerProcess;
let browser: WebBrowser;
let user: Caller;
let admin: Caller;
let page: Page;

before(async () => {
  [server, browser] = await Promise.all([spawnServer(), launchBrowser()]);
  user = createCaller(server.url, server.userToken);
  admin = createCaller(server.url, server.adminToken);
  await runThroughAllStages(server, user, 'sleep 1', { payload: { core_number: 2, runtime: 1 } });
  page = await browser.open(server, firstUsers.user, { path: 'quotas' });
});

after(async () => {
  try {
    await browser?.close();
  } finally {
    await server?.dispose();
  }
});

const card = (project: string) => page.getByRole('region', { name: project });
const readStatement = async () => (await user.get<Statement>(statementPath)).body;
const hours = (seconds: number, decimals = 4) =>
  (seconds / 3600).toLocaleString('en', { minimumFractionDigits: decimals, maximumFractionDigits: decimals });

test('a card has the figures of the ledger', async () => {
  await page.goto('/app/quotas');
  const { time } = await readStatement();
  assert.ok(time.closing_balance < 5000 * 3600, 'the job was charged');
  const bar = card('proj_hpc_one_01').getByRole('img', { name: /^Time/ });
  await bar.waitFor();
  const label = (await bar.getAttribute('aria-label')) ?? '';
  assert.match(label, /^Time: .+ used, 0 core-h held, 5,000 core-h free of 5,000 core-h$/);
  await card('proj_hpc_one_01')
    .getByText(/^At .* a day it does not run out/)
    .waitFor();
  await card('proj_hpc_two_01').getByText('Nothing was used in the last 30 days.').waitFor();
  await expectAccessible(page);
});

test('little time left is said in words', async () => {
  await withdrawDownTo(admin, firstUsers.user, { time: 0 }, 'hpc_two/proj_hpc_two_01');
  await page.goto('/app/quotas');
  await card('proj_hpc_two_01').getByText('Nothing left').waitFor();
  assert.equal(await card('proj_hpc_one_01').getByText('Nothing left').count(), 0);
});

test('a grant changes the open page', async () => {
  await page.goto('/app/quotas');
  await card('proj_hpc_one_01').getByText('free of 5,000 core-h').waitFor();
  await page.getByText('Live', { exact: true }).waitFor();
  await topUp(admin, firstUsers.user, 360_000);
  await card('proj_hpc_one_01').getByText('free of 5,100 core-h').waitFor();
});

test('a statement adds up', async () => {
  await page.goto(`/app/${statementPage}`);
  const { time } = await readStatement();
  const rows = page.getByRole('region', { name: 'Movements, newest first' }).getByRole('row');
  await rows.getByText('Closing balance').waitFor();
  const texts = await rows.allInnerTexts();
  // The heading, and the balances at both ends.
  assert.equal(texts.length, time.movements.length + 3);
  assert.match(texts[1] ?? '', new RegExp(`${hours(time.closing_balance)}$`));
  const changes = time.movements.toReversed().map(({ change }) => hours(Math.abs(change)));
  for (const [index, change] of changes.entries()) assert.ok(texts[index + 2]?.includes(change), texts[index + 2]);
  await page.getByText(`sum +${hours(time.closing_balance)} core-h`).waitFor();
  await page.getByText('The same as a table').click();
  await page.getByRole('region', { name: 'Balance at the end of each day with movements' }).waitFor();
  await expectAccessible(page);
});

test('filters are in the address, and the back button leaves the statement', async () => {
  await page.goto('/app/quotas');
  await card('proj_hpc_one_01').getByRole('link', { name: 'Statement' }).click();
  await page.getByLabel('Kind', { exact: true }).selectOption('Charged for a job');
  await page.waitForURL(/kind=charge/);
  await page.getByText(/^1 movement, sum −/).waitFor();
  await page.getByLabel('Kind', { exact: true }).selectOption('All');
  await page.getByLabel('Of', { exact: true }).selectOption('Space');
  await page.waitForURL(/resource=space/);
  await page.getByRole('columnheader', { name: 'Balance (MB)' }).waitFor();
  await page.getByLabel('From').fill('2020-01-01');
  await page.getByLabel('To').fill('2020-02-01');
  await page.getByText('Nothing has changed in this time.').waitFor();
  await page.goBack();
  await page.getByRole('heading', { level: 1, name: 'Quotas' }).waitFor();
});

test('the CSV has the movements of the range', async () => {
  await page.goto(`/app/${statementPage}?from=all`);
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Download CSV' }).click(),
  ]);
  assert.equal(download.suggestedFilename(), 'statement-proj_hpc_one_01.csv');
  const { time, space } = await readStatement();
  const lines = (await new Response((await download.createReadStream()) as never).text()).trim().split('\r\n');
  assert.equal(lines.length, 1 + time.movements.length + space.movements.length);
});

test('a long statement is shown in pages', async () => {
  for (let count = 0; count < 50; count++) await topUp(admin, firstUsers.user, 3600);
  await page.goto(`/app/${statementPage}`);
  await page.getByText(/^Page 1 of 2/).waitFor();
  await page.getByRole('button', { name: 'Older' }).click();
  await page.waitForURL(/page=2/);
  await page.getByText('Opening balance').last().waitFor();
  await page.goBack();
  await page.getByText(/^Page 1 of 2/).waitFor();
});

test('systems show their limits and tools', async () => {
  await page.goto('/app/systems');
  const system = page.getByRole('region', { name: /^hpc_two/ });
  await system.getByText('BASH').click();
  await system.getByRole('region', { name: 'Parameters of BASH' }).waitFor();
  await expectAccessible(page);
  await system.getByRole('link', { name: 'Submit a job' }).click();
  await page.getByRole('combobox', { name: 'Tool' }).waitFor();
  assert.equal(await page.getByRole('combobox', { name: 'System' }).inputValue(), 'hpc_two');
});

test('a paused system shows the reason', async () => {
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify({ reason: 'new disks' });
  await admin.send('POST', '/admin/systems/hpc_two/pause/', headers, body);
  await page.goto('/app/systems');
  const system = page.getByRole('region', { name: /^hpc_two/ });
  await system.getByText(/No submissions since .*: new disks/).waitFor();
  await admin.send('POST', '/admin/systems/hpc_two/resume/', headers, body);
  await page.getByRole('button', { name: 'Refresh' }).click();
  await system.getByText('new disks').waitFor({ state: 'detached' });
});
