import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import type { Download, Locator, Page } from 'playwright-core';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { jobPath, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import { firstUsers } from '../../support/server.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { readZip } from '../../support/unzip.ts';
import { expectAccessible, launchBrowser, type WebBrowser } from '../../support/web-page.ts';
import { createZip } from '../../support/zip.ts';

let server: ServerProcess;
let browser: WebBrowser;
let me: Caller;
let page: Page;
let staff: Page;
let job: Job;

const image =
  '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><script>parent.document.title = "run"</script><rect width="40" height="30"/></svg>';
const markup = '<script>document.title = "run"</script><img src=x onerror="document.title = 1">';

before(async () => {
  [server, browser] = await Promise.all([spawnServer(), launchBrowser()]);
  me = createCaller(server.url, server.userToken);
  const zip = await createZip({
    'data/table.csv': `name;value\n${Array.from({ length: 300 }, (_, index) => `"row; ${index}";${index}.5\n`).join('')}`,
    'data/deep/notes.txt': 'plain text\n',
    'plot.svg': image,
    'paper.svg':
      '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><rect width="40" height="30" fill="#fff"/></svg>',
    'page & 100%.html': markup,
    'blob.bin': new Uint8Array([1, 2, 0, 3]),
    empty: '',
    'large.txt': 'x'.repeat(300_000),
  });
  const { body } = await me.submit('/jobs/hpc_one/', { command: 'true', title: 'With files' }, zip);
  job = await me.waitUntilFinished(body);
  page = await browser.open(server, firstUsers.user);
});

after(async () => {
  try {
    await browser?.close();
  } finally {
    await server?.dispose();
  }
});

const open = (target: Job, query = '', window = page) => window.goto(`/app${jobPath(target).slice(0, -1)}${query}`);

const textOf = async (download: Download) => await readFile(await download.path(), 'utf8');

test('files are a tree with sizes, and folders open by the keyboard', async () => {
  await open(job, '?tab=files');
  await page.getByText('8 files').waitFor();
  const folder = page.getByRole('button', { name: 'deep/' });
  await page.getByRole('link', { name: 'notes.txt', exact: true }).waitFor();
  await folder.focus();
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'notes.txt', exact: true }).waitFor({ state: 'detached' });
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'notes.txt', exact: true }).click();
  await page.waitForURL(/file=data%2Fdeep%2Fnotes\.txt|file=data\/deep\/notes\.txt/);
  await page.getByText('plain text').waitFor();
  await expectAccessible(page);
});

test('previews: text, the first rows of a CSV, images; nothing of a file runs', async () => {
  const openFile = (name: string) => page.getByRole('link', { name, exact: true }).click();
  await open(job, '?tab=files');
  await openFile('table.csv');
  await page.getByRole('cell', { name: 'row; 199' }).waitFor();
  assert.equal(await page.getByRole('row').count(), 201);
  await expectAccessible(page);

  await openFile('plot.svg');
  const picture = page.getByRole('img', { name: 'Preview of plot.svg' });
  await picture.waitFor();
  const width = await picture.evaluate(async (element: HTMLImageElement) => {
    await element.decode();
    return element.naturalWidth;
  });
  assert.equal(width, 40);
  assert.match((await picture.getAttribute('src')) ?? '', /^blob:/);
  await expectAccessible(page);

  await openFile('page & 100%.html');
  await page.getByText(markup).waitFor();
  assert.match(await page.title(), /^With files/);

  await openFile('blob.bin');
  await page.getByText('The file is not text.').waitFor();
  await openFile('empty');
  await page.getByText('The file is empty.').waitFor();
  await openFile('large.txt');
  await page.getByText('The first 256 kB.').waitFor();
});

test('images do not glare in the dark appearance', async () => {
  await open(job, '?tab=files&file=paper.svg');
  await page.mouse.move(0, 0);
  const picture = page.getByRole('img', { name: 'Preview of paper.svg' });
  await picture.evaluate((element: HTMLImageElement) => element.decode());
  assert.equal(await brightestValue(picture), 255);
  await page.emulateMedia({ colorScheme: 'dark' });
  const dark = await brightestValue(picture);
  assert.ok(dark < 220, `the brightest value is ${dark}`);
  assert.ok((await brightestValue(picture.locator('..'))) < 220, 'the squares behind it');
  await picture.hover();
  assert.equal(await brightestValue(picture), 255, 'the colours of the file, when the pointer is on it');
  await page.emulateMedia({ colorScheme: 'light' });
});

/** The largest of the red, green and blue values of an element as it is on the screen. */
async function brightestValue(element: Locator): Promise<number> {
  const screenshot = (await element.screenshot()).toString('base64');
  return page.evaluate(async (base64) => {
    const bitmap = await createImageBitmap(new Blob([Uint8Array.fromBase64(base64)], { type: 'image/png' }));
    const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d');
    if (context === null) throw new Error('The browser cannot draw.');
    context.drawImage(bitmap, 0, 0);
    const { data } = context.getImageData(0, 0, bitmap.width, bitmap.height);
    return data.reduce((brightest, value, index) => (index % 4 === 3 ? brightest : Math.max(brightest, value)), 0);
  }, screenshot);
}

test('one file and all files can be downloaded', async () => {
  await open(job, '?tab=files');
  const [one] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Download page & 100%.html' }).click(),
  ]);
  assert.equal(one.suggestedFilename(), 'page & 100%.html');
  assert.equal(await textOf(one), markup);
  const [all] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Download all (zip)' }).click(),
  ]);
  const files = await readZip(await readFile(await all.path()));
  assert.equal(String(files.get('data/deep/notes.txt')), 'plain text\n');
});

test('a job that there is not, and one of another user, are unknown', async () => {
  await page.goto('/app/jobs/hpc_one/proj_hpc_one_01/NOPE');
  await page.getByText('You have no such job').waitFor();
  await expectAccessible(page);
  staff = await browser.open(server, firstUsers.admin);
  await open(job, '', staff);
  await staff.getByText('You have no such job').waitFor();
  await staff.getByRole('link', { name: 'Look among the jobs of all users' }).click();
  await staff.getByRole('heading', { name: 'With files' }).waitFor();
});

test('staff cancels and deletes with a reason, which the owner sees at once', async () => {
  const { body: running } = await me.submit('/jobs/hpc_one/', { command: waitForGoScript, title: 'Too long' });
  await waitForStage(me, running, 'RUNNING');
  await open(running);
  await page.getByText(/running for/).waitFor();
  await open(running, '?admin=true', staff);
  await staff.getByText(`User ${firstUsers.user}`).waitFor();
  await staff.getByRole('button', { name: 'Cancel the job' }).click();
  const cancel = staff.getByRole('dialog');
  await cancel.getByLabel('Reason').fill('Maintenance tonight');
  await cancel.getByRole('button', { name: 'Cancel the job' }).click();
  await staff.getByText('Cancelled by the staff').first().waitFor();
  await page.getByText('The staff of the system or of your project cancelled the job.').waitFor();
  await page.getByText('Maintenance tonight').first().waitFor();
  await staff.getByRole('link', { name: 'Log' }).click();
  await staff.getByText('The job has written nothing').waitFor();

  await open(job, '?tab=files&admin=true', staff);
  await staff.getByText('8 files').waitFor();
  await expectAccessible(staff);
  await open(job, '?tab=files');
  await page.getByText('8 files').waitFor();
  await staff.getByRole('button', { name: 'Delete files' }).click();
  const remove = staff.getByRole('dialog');
  await remove.getByLabel('Reason').fill('Disk is full');
  await remove.getByRole('button', { name: 'Delete files' }).click();
  await page.getByText('The files of this job were deleted').waitFor();
  await page.getByText(/Disk is full/).waitFor();
  await page.getByRole('link', { name: 'Log' }).click();
  await page.getByText('The log was deleted with the files of the job').waitFor();
  await expectAccessible(page);
});
