import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { Bursar } from '#client';
import { rawZip } from '../../files/zip/raw-zip.ts';
import { startCuttingProxy } from '../../support/cutting-proxy.ts';
import { firstUsers } from '../../support/server.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { type ShippedConfig, shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';
import { expectAccessible, launchBrowser, type WebBrowser } from '../../support/web-page.ts';
import { createZip } from '../../support/zip.ts';
import { waitForNotice } from './notice.ts';

let server: ServerProcess;
let browser: WebBrowser;
let folder: string;

before(async () => {
  [server, browser] = await Promise.all([spawnServer({ config: configWithTool() }), launchBrowser()]);
  folder = await mkdtemp(join(tmpdir(), 'bursar-submit-'));
  await mkdir(join(folder, 'water/data'), { recursive: true });
  await writeFile(join(folder, 'water/run.sh'), '#!/bin/sh\ncat data/input.txt\n./tool.sh\n');
  await writeFile(join(folder, 'water/tool.sh'), '#!/bin/sh\necho "tool runs"\n');
  await writeFile(join(folder, 'water/data/input.txt'), 'hello from a folder\n'.repeat(5000));
  await writeFile(join(folder, 'water/secret.key'), 'secret');
  await writeFile(join(folder, 'water/.bursarignore'), '*.key\n');
});

after(async () => {
  try {
    await browser?.close();
  } finally {
    await server?.dispose();
    await rm(folder, { recursive: true, force: true });
  }
});

function configWithTool(): ShippedConfig {
  const config = shippedConfig();
  const tools = config.systems.hpc_two?.tools as Record<string, unknown>;
  tools.FIT = {
    command: ['bash', 'main.sh', '{model}', '{steps}'],
    entry: 'main.sh',
    parameters: {
      model: { type: 'string', required: true, values: ['linear', 'cubic'] },
      steps: { type: 'integer', required: true, min: 1, max: 100 },
    },
  };
  config.systems.hpc_one?.projects.push({
    name: 'proj_small',
    autoJoin: true,
    grant: { timeSeconds: 3600, spaceKb: 1000 },
  } as (typeof config.systems.hpc_one.projects)[number]);
  return config;
}

const submitButton = (page: Page) => page.getByRole('button', { name: 'Submit the job' });

/** Fails if the page sends a job. */
function forbidSubmissions(page: Page): void {
  page.on('request', (request) => {
    if (request.method() !== 'POST' || !new URL(request.url()).pathname.startsWith('/jobs/')) return;
    assert.fail(`the page has sent ${request.url()}`);
  });
}

async function waitForJob(page: Page): Promise<string> {
  await page.waitForURL(/\/app\/jobs\/[^/]+\/[^/]+\/[^/?]+/);
  const [, path = ''] = /\/app\/jobs\/([^?#]+)/.exec(page.url()) ?? [];
  return path;
}

async function readEndOf(path: string): Promise<{ stage: string; log: string }> {
  const [hpc = '', project_name = '', job_id = ''] = path.split('/');
  const job = new Bursar({ url: server.url, token: server.userToken }).job({ hpc, project_name, job_id });
  const { stage } = await job.wait();
  return { stage, log: (await Array.fromAsync(job.log())).join('') };
}

/** Drops a real file or folder on the page, as a file manager does. */
async function dropOn(page: Page, path: string): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const data = { items: [], files: [path], dragOperationsMask: 1 };
  for (const type of ['dragEnter', 'dragOver', 'drop'] as const)
    await session.send('Input.dispatchDragEvent', { type, x: 400, y: 300, data });
}

test('a dropped folder is shown as a tree, zipped in the browser, and its job succeeds', async () => {
  const page = await browser.open(server, firstUsers.user, { path: 'submit' });
  await page.getByText('Drop a folder or a zip here').waitFor();
  assert.equal(await submitButton(page).isDisabled(), true);
  await page.getByText('The command is required.').waitFor();
  await expectAccessible(page);
  await dropOn(page, join(folder, 'water'));
  const tree = page.getByRole('region', { name: 'Files of water' });
  await tree.getByText('run.sh').waitFor();
  await tree.getByText('100 kB').first().waitFor();
  assert.equal(await tree.getByText('secret.key').count(), 0);
  await page.getByText('2 left out by .bursarignore').waitFor();
  await page.getByRole('textbox', { name: 'Command' }).fill('sbatch missing.sh');
  await page
    .getByText(/lacks missing.sh/)
    .first()
    .waitFor();
  await page.getByRole('textbox', { name: 'Command' }).fill('sbatch run.sh');
  await page.getByRole('textbox', { name: 'Nodes' }).fill('2');
  await page.getByRole('textbox', { name: 'Cores per node' }).fill('6');
  await page.getByRole('textbox', { name: 'Runtime' }).fill('2:00');
  await page.getByText('Costs at most 24 core-h of 5,000 core-h; leaves 4,980 core-h; space 100 kB').waitFor();
  await expectAccessible(page);
  await submitButton(page).click();
  const { stage, log } = await readEndOf(await waitForJob(page));
  assert.equal(stage, 'SUCCESSFUL');
  assert.match(log, /hello from a folder\n/);
  assert.match(log, /tool runs/);
});

test('a hostile zip is refused before anything is sent, with the words of the server', async () => {
  const page = await browser.open(server, firstUsers.user, { path: 'submit' });
  forbidSubmissions(page);
  await page.getByRole('textbox', { name: 'Command' }).fill('sbatch run.sh');
  const zip = rawZip([
    { name: 'run.sh', content: 'echo hello' },
    { name: '../evil', content: 'evil' },
    { name: 'data/link', content: '/etc/passwd', mode: 0o120777 },
    { name: '/etc/cron', content: 'evil' },
    { name: 'bomb', content: Buffer.alloc(20_000_000) },
  ]);
  await page.getByLabel('Choose a zip').setInputFiles({ name: 'evil.zip', mimeType: 'application/zip', buffer: zip });
  const tree = page.getByRole('region', { name: 'Files of evil.zip' });
  await tree.getByText('The zip entry "../evil" has a path that leaves its folder (..).').waitFor();
  await tree.getByText('The zip entry "data/link" is a symbolic link.').waitFor();
  await tree.getByText('The zip entry "/etc/cron" has an absolute path.').waitFor();
  await tree.getByText(/The zip entry "bomb" unpacks to more than \d+ times its size/).waitFor();
  assert.equal(await submitButton(page).isDisabled(), true);
  await expectAccessible(page);
  const broken = { name: 'broken.zip', mimeType: 'application/zip', buffer: Buffer.from('not a zip') };
  await page.getByLabel('Choose a zip').setInputFiles(broken);
  await page.getByText('The body is not a zip file').first().waitFor();
  const good = await createZip({ 'run.sh': 'echo hello' });
  await page.getByLabel('Choose a zip').setInputFiles({ name: 'good.zip', mimeType: 'application/zip', buffer: good });
  await page.getByRole('region', { name: 'Files of good.zip' }).getByText('run.sh').waitFor();
  assert.equal(await submitButton(page).isEnabled(), true);
});

const field = (page: Page, name: string) => page.getByRole('textbox', { name });

test('the page says that a quota is too small, and offers the longest runtime', async () => {
  const page = await browser.open(server, firstUsers.user, { path: 'submit?hpc=hpc_one&project=proj_small' });
  await field(page, 'Command').fill('echo hello');
  await field(page, 'Runtime').fill('120 min');
  await page.getByText('Costs at most 2 core-h of 1 core-h').waitFor();
  assert.equal(await submitButton(page).isDisabled(), true);
  const reason = 'The job needs 2 core-h of time, but your own quota has only 1 core-h available: 1 core-h too little.';
  await page.getByText(reason).waitFor();
  assert.equal(await page.getByText(reason).count(), 1, 'the reason is shown once');
  assert.match((await page.getByText('Before you can submit').locator('..').textContent()) ?? '', /too little/);
  await page.getByRole('button', { name: 'Use the longest runtime: 1 h' }).click();
  await page.getByText('leaves 0 core-h').waitFor();
  assert.equal(await field(page, 'Runtime').inputValue(), '1');
  assert.equal(await submitButton(page).isEnabled(), true);
  const buffer = await createZip({ 'data.bin': randomBytes(2_000_000) });
  await page.getByLabel('Choose a zip').setInputFiles({ name: 'big.zip', mimeType: 'application/zip', buffer });
  await page.getByText('The files need 2 MB of space, and 1 MB is left.').waitFor();
  assert.equal(await submitButton(page).isDisabled(), true);
});

test('a tool has the fields of its parameters, and a chosen folder runs with them', async () => {
  const page = await browser.open(server, firstUsers.user, { path: 'submit' });
  await page.getByRole('combobox', { name: 'System' }).selectOption('hpc_two');
  await page.getByRole('combobox', { name: 'Tool' }).selectOption('FIT');
  await field(page, 'steps').fill('1000');
  await page.getByText('Must be at most 100.', { exact: true }).waitFor();
  await field(page, 'steps').fill('7');
  await page.getByRole('combobox', { name: 'model' }).selectOption('cubic');
  await page.getByText(/has no zip, so it lacks main.sh/).waitFor();
  await mkdir(join(folder, 'fit'), { recursive: true });
  await writeFile(join(folder, 'fit/main.sh'), 'echo "model $1 steps $2"\n');
  await page.getByLabel('Choose a folder').setInputFiles(join(folder, 'fit'));
  await field(page, 'Title').fill('Fit of a curve');
  await field(page, 'Tags').fill('fit curve');
  await expectAccessible(page);
  await submitButton(page).click();
  const path = await waitForJob(page);
  const { stage, log } = await readEndOf(path);
  assert.equal(stage, 'COMPLETED');
  assert.equal(log, 'model cubic steps 7\n');

  await page.goto(`/app/submit?from=${encodeURIComponent(path)}`);
  await page.getByText('The form has the values of Fit of a curve').waitFor();
  assert.equal(await field(page, 'steps').inputValue(), '7');
  assert.equal(await page.getByRole('combobox', { name: 'model' }).inputValue(), 'cubic');
  assert.equal(await field(page, 'Tags').inputValue(), 'fit curve');
  await field(page, 'steps').fill('9');
  await page.getByRole('button', { name: 'Use its files again' }).click();
  await page.getByText('Its files are chosen below.').waitFor();
  await expectAccessible(page);
  await submitButton(page).click();
  await page.waitForURL((url) => url.pathname.startsWith('/app/jobs/') && !url.pathname.includes(path));
  assert.equal((await readEndOf(await waitForJob(page))).log, 'model cubic steps 9\n');
});

test('what was typed survives a reload, and is gone after the submission', async () => {
  const page = await browser.open(server, firstUsers.user, { path: 'submit' });
  await field(page, 'Command').fill('echo kept');
  await field(page, 'Title').fill('Kept over a reload');
  await page.reload();
  assert.equal(await field(page, 'Command').inputValue(), 'echo kept');
  assert.equal(await field(page, 'Title').inputValue(), 'Kept over a reload');
  await submitButton(page).click();
  await waitForJob(page);
  await page.goto('/app/submit');
  assert.equal(await field(page, 'Command').inputValue(), '');
});

test('an upload shows its progress, can be cancelled, and goes on after a cut connection with one job', async () => {
  const proxy = await startCuttingProxy(server.url);
  const page = await browser.open({ ...server, url: proxy.url }, firstUsers.user, { path: 'submit' });
  const session = await page.context().newCDPSession(page);
  await session.send('Network.enable');
  const limitUpload = (uploadThroughput: number) =>
    session.send('Network.emulateNetworkConditions', {
      offline: false,
      latency: 0,
      downloadThroughput: -1,
      uploadThroughput,
    });
  const buffer = await createZip({ 'data.bin': randomBytes(3_000_000) });
  await page.getByLabel('Choose a zip').setInputFiles({ name: 'big.zip', mimeType: 'application/zip', buffer });
  await field(page, 'Command').fill('ls');
  await field(page, 'Title').fill('Large upload');
  await limitUpload(500_000);
  // Slow enough to see its pace. It stops before its end, which must not come before the cancellation.
  const cancelled = Promise.withResolvers<void>();
  proxy.cutAfter('up', 1_000_000, cancelled.promise);
  // The kernel may take the rest of the files at any time, and then there is no pace.
  const progress = [/Sending the files/, /of 3 MB, .*\/s, .* left/];
  await Promise.all([...progress.map((text) => waitForNotice(page, text)), submitButton(page).click()]);
  await until('the upload has stopped', () => proxy.pendingCuts() === 0 || undefined);
  await page.getByRole('link', { name: 'Quotas' }).click();
  await page.getByRole('button', { name: 'Stay' }).click();
  await page.getByRole('button', { name: 'Cancel the submission' }).click();
  await submitButton(page).waitFor();
  assert.equal(await field(page, 'Title').inputValue(), 'Large upload');
  cancelled.resolve();
  await limitUpload(-1);
  proxy.cutAfter('up', 1_000_000);
  await submitButton(page).click();
  assert.equal((await readEndOf(await waitForJob(page))).stage, 'SUCCESSFUL');
  assert.equal(proxy.pendingCuts(), 0);
  const bursar = new Bursar({ url: server.url, token: server.userToken });
  const jobs = await Array.fromAsync(bursar.jobs());
  assert.equal(jobs.filter(({ title }) => title === 'Large upload').length, 1);
  await page.close();
  await proxy.close();
});

test('a paused system says so, with its reason', async () => {
  const admin = new Bursar({ url: server.url, token: server.adminToken });
  await admin.api.pauseSystem({ path: { hpc: 'hpc_two' }, body: { reason: 'New disks until noon' } });
  const page = await browser.open(server, firstUsers.user, { path: 'submit?hpc=hpc_two' });
  await page.getByText(/hpc_two is paused since .* and takes no jobs: New disks until noon/).waitFor();
  assert.equal(await submitButton(page).isDisabled(), true);
  await expectAccessible(page);
});
