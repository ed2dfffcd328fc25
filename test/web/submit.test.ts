import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { rawZip } from '../files/zip/raw-zip.ts';
import { firstUsers } from '../support/server.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';
import { type ShippedConfig, shippedConfig } from '../support/shipped-config.ts';
import { expectAccessible, launchBrowser, type WebBrowser } from '../support/web-page.ts';
import { createZip } from '../support/zip.ts';

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
  await browser?.close();
  await server?.dispose();
  await rm(folder, { recursive: true, force: true });
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
  const headers = { authorization: `Bearer ${server.userToken}` };
  const read = async (url: string) => await fetch(`${server.url}${url}`, { headers });
  for (;;) {
    const job = (await (await read(`/jobs/${path}/?wait=20`)).json()) as { stage: string; terminal_stage: boolean };
    if (job.terminal_stage) return { stage: job.stage, log: await (await read(`/jobs/${path}/log/`)).text() };
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

test('a chosen folder is shown as a tree, zipped in the browser, and its job succeeds', async () => {
  const page = await browser.open(server, firstUsers.user, { path: 'submit' });
  await page.getByText('Drop a folder or a zip here').waitFor();
  assert.equal(await submitButton(page).isDisabled(), true);
  await page.getByText('The command is required.').waitFor();
  await expectAccessible(page);
  await page.getByLabel('Choose a folder').setInputFiles(join(folder, 'water'));
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
  await page.getByText('Costs at most 24 core-h of 5,000 core-h; leaves 4,976 core-h; space 100 kB').waitFor();
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
