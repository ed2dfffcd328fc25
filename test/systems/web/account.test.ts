import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { type Caller, createCaller } from '../../support/api.ts';
import { submitShellLine, waitForGoScript } from '../../support/jobs.ts';
import { firstUsers } from '../../support/server.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { expectAccessible, launchBrowser, type WebBrowser } from '../../support/web-page.ts';
import { startEndpoint, type TestEndpoint } from '../../support/webhook-endpoint.ts';
import { webhookConfig, webhookTuning } from '../../support/webhooks.ts';
import { waitForNotice } from './notice.ts';

let server: ServerProcess;
let browser: WebBrowser;
let endpoint: TestEndpoint;
let user: Caller;
let page: Page;

before(async () => {
  [server, browser, endpoint] = await Promise.all([
    spawnServer({ config: webhookConfig(), tuning: webhookTuning }),
    launchBrowser(),
    startEndpoint(),
  ]);
  user = createCaller(server.url, server.userToken);
  page = await browser.open(server, firstUsers.user, { path: 'account' });
});

after(async () => {
  try {
    await browser?.close();
  } finally {
    await server?.dispose();
    await endpoint?.close();
  }
});

const button = (name: string, within: Page | Locator = page) => within.getByRole('button', { name, exact: true });
const dialog = (name: string | RegExp) => page.getByRole('dialog', { name });

test('the profile shows the projects and where to get the command line', async () => {
  await page.getByRole('region', { name: 'Your projects' }).getByRole('link', { name: 'proj_hpc_one_01' }).waitFor();
  await page.getByRole('link', { name: 'bursar.mjs' }).waitFor();
  await expectAccessible(page);
});

test('a token is created, shown once, used and revoked', async () => {
  await page.getByRole('navigation', { name: 'Account' }).getByRole('link', { name: 'Tokens' }).click();
  await button('Create a token').click();
  const form = dialog('Create a token');
  assert.ok(await button('Create', form).isDisabled(), 'a token needs a name');
  await form.getByLabel('Name').fill('notebook');
  await form.getByLabel(/^submit, cancel and delete jobs/).uncheck();
  await form.getByLabel('Works for').selectOption('hpc_one');
  assert.equal(await form.getByText('admin:write').count(), 0, 'the user has no role for it');
  await expectAccessible(page);
  await button('Create', form).click();
  const secret = await dialog('Your new token').getByLabel('Token').inputValue();
  assert.match(secret, /^bursar_/);
  await expectAccessible(page);
  await button('I have stored it').click();
  const row = page.getByRole('row').filter({ hasText: 'notebook' });
  await row.getByText('only on hpc_one').waitFor();
  const caller = createCaller(server.url, secret);
  assert.equal((await caller.get('/jobs/hpc_one/')).status, 200);
  assert.equal((await caller.submit('/jobs/hpc_one/', { command: 'true' })).status, 403);

  await button('Revoke notebook').click();
  const revoke = button('Revoke', dialog('Revoke the token notebook?'));
  await Promise.all([waitForNotice(page, 'The token notebook is revoked'), revoke.click()]);
  assert.equal((await caller.get('/jobs/hpc_one/')).status, 401);
  await page.getByLabel(/^Show expired and revoked tokens/).check();
  await row.getByText('revoked').waitFor();
});

test('other sessions are listed and ended', async () => {
  const other = await browser.open(server, firstUsers.user);
  await page.goto('/app/account?tab=sessions');
  const rows = page.getByRole('region', { name: 'Your sessions' }).getByRole('row');
  await rows.filter({ hasText: 'This one' }).waitFor();
  assert.equal(await rows.count(), 3, 'the heading and two sessions');
  await expectAccessible(page);
  await button('End all others').click();
  await button('End them').click();
  await rows.filter({ hasNotText: 'This one' }).nth(1).waitFor({ state: 'detached' });
  await other.getByRole('dialog', { name: 'Your session has ended' }).waitFor();
  await other.context().close();
});

test('a webhook is created, tested, changed and deleted', async () => {
  await page.goto('/app/account?tab=webhooks');
  await page.getByText('No webhooks').waitFor();
  await button('Create a webhook').click();
  const form = dialog('Create a webhook');
  await form.getByLabel('URL').fill('http://10.0.0.1/internal');
  await button('Create', form).click();
  await form.getByRole('alert').waitFor();
  await form.getByLabel('URL').fill(`${endpoint.url}/bursar`);
  await button('Create', form).click();
  const firstSecret = await dialog('The secret of the webhook').getByLabel('Secret').inputValue();
  await button('I have stored it').click();
  await page.getByRole('link', { name: `${endpoint.url}/bursar` }).click();

  await page.getByText('Nothing was sent yet').waitFor();
  await button('Send a test').click();
  await endpoint.waitForRequests(1);
  const row = page
    .getByRole('region', { name: /^Deliveries/ })
    .getByRole('row')
    .nth(1);
  await row.getByText('delivered').waitFor();
  await expectAccessible(page);

  endpoint.respondWith(() => ({ status: 500 }));
  await button('Send again: webhook.test').click();
  await row.getByText('failed').waitFor();
  await row.getByText('5xx').waitFor();
  await page.getByText('Failing', { exact: true }).waitFor();
  endpoint.respondWith(() => ({ status: 204 }));
  await button('Send again: webhook.test').click();
  await row.getByText('delivered').waitFor();

  await button('New secret').click();
  await button('Make a new secret', dialog('Make a new secret?')).click();
  assert.notEqual(await dialog('The secret of the webhook').getByLabel('Secret').inputValue(), firstSecret);
  await button('I have stored it').click();
  await button('Change').click();
  await dialog('Change the webhook').getByLabel('anything changes').check();
  await button('Save').click();
  await page.getByText('all', { exact: true }).waitFor();
  await button('Delete').click();
  await button('Delete', dialog('Delete the webhook?')).click();
  await page.getByText('No webhooks').waitFor();
});

/** Records the notifications of the page instead of showing them. */
async function recordNotifications(window: Page): Promise<void> {
  await window.addInitScript(() => {
    const shown: string[] = [];
    class RecordedNotification {
      static permission = 'default';
      static async requestPermission() {
        RecordedNotification.permission = 'granted';
        return 'granted';
      }
      constructor(title: string) {
        shown.push(title);
      }
      close() {}
    }
    Object.assign(globalThis, { Notification: RecordedNotification, shownNotifications: shown });
  });
}

test('the browser notifies of a job that failed, by choice', async () => {
  const window = await browser.open(server, firstUsers.user);
  await recordNotifications(window);
  await window.goto('/app/account?tab=notifications');
  await window.getByLabel('A job that failed').check();
  await button('Show one now', window).waitFor();
  await expectAccessible(window);
  await window.getByText('Live', { exact: true }).waitFor();
  for (const [title, line] of Object.entries({ good: 'true', bad: 'exit 3' })) {
    const { body } = await submitShellLine(user, '/jobs/hpc_one/', `bash -c '${line}'`, { title });
    await user.waitUntilFinished(body);
  }
  await window.waitForFunction(
    () => (globalThis as { shownNotifications?: string[] }).shownNotifications?.length === 1,
  );
  const shown = await window.evaluate(() => (globalThis as { shownNotifications?: string[] }).shownNotifications);
  assert.deepEqual(shown, ['bad failed']);
  await window.context().close();
});

test('a hidden tab closes its event stream, and misses no event', async () => {
  const window = await browser.open(server, firstUsers.user);
  await window.clock.install();
  await window.goto('/app/quotas');
  await window.getByText('Live', { exact: true }).waitFor();
  const setVisibility = (state: string) =>
    window.evaluate((visibility) => {
      Object.defineProperty(document, 'visibilityState', { value: visibility, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, state);
  const closed = window.waitForEvent('requestfailed', (request) => request.url().includes('/events/'));
  await setVisibility('hidden');
  await window.clock.runFor(61_000);
  await closed;
  await submitShellLine(user, '/jobs/hpc_one/', waitForGoScript, { core_number: 2, runtime: 1 });
  const quotas = window.waitForRequest((request) => /\/(accounts|quotas)\/$/.test(request.url()));
  await setVisibility('visible');
  await quotas;
  await window.getByText('2 core-h', { exact: true }).waitFor();
  await window.context().close();
});
