import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { firstUsers } from '../../support/server.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { until } from '../../support/until.ts';
import { expectAccessible, launchBrowser, type WebBrowser } from '../../support/web-page.ts';

let server: ServerProcess;
let browser: WebBrowser;

before(async () => {
  [server, browser] = await Promise.all([spawnServer(), launchBrowser()]);
});

after(async () => {
  try {
    await browser?.close();
  } finally {
    await server?.dispose();
  }
});

test('a browser that opens / is sent to the page, and is asked to sign in', async () => {
  const page = await browser.openAnonymous(server);
  await page.goto('/');
  assert.equal(new URL(page.url()).pathname, '/app/');
  await page.getByRole('heading', { name: 'Sign in to Bursar' }).waitFor();
  await expectAccessible(page);
});

test('an API client that opens / sees no change', async () => {
  const response = await fetch(`${server.url}/`, { redirect: 'manual' });
  assert.equal(response.status, 404);
  assert.equal(((await response.json()) as { code: string }).code, 'not_found');
});

test('the page is sent with a strict policy, and its files are compressed and kept by browsers', async () => {
  const index = await fetch(`${server.url}/app/jobs`);
  const policy = index.headers.get('content-security-policy') ?? '';
  assert.match(policy, /default-src 'none'; script-src 'self'/);
  assert.doesNotMatch(policy, /unsafe/);
  assert.equal(index.headers.get('cache-control'), 'no-cache');
  const [, script = ''] = /src="([^"]+\.js)"/.exec(await index.text()) ?? [];
  const asset = await fetch(server.url + script, { headers: { 'accept-encoding': 'br' } });
  assert.equal(asset.status, 200);
  assert.equal(asset.headers.get('content-encoding'), 'br');
  assert.match(asset.headers.get('cache-control') ?? '', /max-age=31536000, immutable/);
  assert.equal((await fetch(`${server.url}/app/assets/missing.js`)).status, 404);
  assert.equal((await fetch(`${server.url}/app/assets/..%2f..%2f..%2fpackage.json`)).status, 404);
});

test('the first load is under 150 kB', async () => {
  const page = await browser.open(server, firstUsers.user, { path: 'jobs' });
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
  const urls = await page.evaluate(() => [
    location.href,
    ...performance
      .getEntriesByType('resource')
      .map(({ name }) => name)
      .filter((name) => name.includes('/app/assets/')),
  ]);
  assert.ok(urls.length > 2, 'scripts and styles');
  const sizes = await Promise.all(urls.map(gzipSize));
  const total = sizes.reduce((sum, size) => sum + size, 0);
  assert.ok(total < 150_000, `${total} bytes: ${urls.map((url, index) => `${url} ${sizes[index]}`).join(', ')}`);
});

async function gzipSize(url: string): Promise<number> {
  const response = await fetch(url, { headers: { 'accept-encoding': 'gzip' } });
  await response.arrayBuffer();
  return Number(response.headers.get('content-length'));
}

test('a user signs in by a link, moves by keys, and signs out', async () => {
  const page = await browser.open(server, firstUsers.user);
  await page.getByText('Live', { exact: true }).waitFor();
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
  // The second key counts only if it follows the first one soon.
  await until('the page of the other keys', async () => {
    await page.keyboard.press('g');
    await page.keyboard.press('q');
    return (await page.getByRole('heading', { level: 1, name: 'Quotas' }).isVisible()) || undefined;
  });
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  await expectAccessible(page);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in to Bursar' }).waitFor();
});

test('an unknown page says so', async () => {
  const page = await browser.open(server, firstUsers.user, { path: 'nowhere' });
  await page.getByRole('heading', { name: 'There is no such page' }).waitFor();
});

test('the API reference keeps to its policy, while requests are sent from it too', async () => {
  const page = await browser.open(server, firstUsers.user);
  const violations: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error') violations.push(message.text());
  });
  const response = await page.goto('/docs/');
  assert.doesNotMatch(response?.headers()['content-security-policy'] ?? 'none', /unsafe|https:|none$/);
  await page.locator('#operations-jobs-listJobs, [id$="-listJobs"]').first().getByRole('button').first().click();
  await page.getByRole('button', { name: 'Try it out' }).click();
  await page.getByRole('button', { name: 'Execute' }).click();
  await page.locator('.live-responses-table .response-col_status', { hasText: '200' }).waitFor();
  await page.getByRole('button', { name: 'Authorize' }).first().click();
  await page.getByRole('heading', { name: 'Available authorizations' }).waitFor();
  assert.deepEqual(violations, []);
});

test('the header is as wide as the window', async () => {
  const page = await browser.open(server, firstUsers.user, { path: 'systems' });
  await page.getByRole('heading', { level: 1, name: 'Systems' }).waitFor();
  const [right, limit] = await page.evaluate(
    () => [document.querySelector('header')?.getBoundingClientRect().right, innerWidth] as const,
  );
  // Scrollbars have no width in this browser. A gutter that is kept free for them would have one.
  assert.equal(right, limit);
});
