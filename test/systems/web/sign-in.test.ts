import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { audience, clientSecret, startProvider, type TestProvider } from '../../support/oidc-provider.ts';
import { firstUsers } from '../../support/server.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { createLink } from '../../support/sign-in.ts';
import { launchBrowser, type WebBrowser } from '../../support/web-page.ts';

let provider: TestProvider;
let server: ServerProcess;
let browser: WebBrowser;

before(async () => {
  provider = await startProvider({ claims: { ada: { user_number: '303001', name: 'Ada Lovelace' } } });
  const oidc = { issuer: provider.issuer, name: 'Test University', audience, clientId: 'bursar', clientSecret };
  const config = { ...shippedConfig(), oidc: [{ ...oidc, claims: { user: 'user_number' } }] };
  [server, browser] = await Promise.all([spawnServer({ config }), launchBrowser()]);
  provider.setRedirectUris([`${server.url}/sign-in/callback/`], [`${server.url}/sign-in/`]);
});

after(async () => {
  try {
    await browser?.close();
  } finally {
    await server?.dispose();
    await provider?.stop();
  }
});

test('a user signs in at an OpenID provider, and comes back to the page that was asked for', async () => {
  const page = await browser.openAnonymous(server, { path: 'systems' });
  await page.getByRole('link', { name: 'Sign in with Test University' }).click();
  await page.locator('input[name=login]').fill('ada');
  await page.locator('input[name=password]').fill('anything');
  await page.locator('button[type=submit]').click();
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('heading', { level: 1, name: 'Systems' }).waitFor();
  await page.getByText('Ada Lovelace').waitFor();
});

test('a session that ends is said, and the page goes on after a sign-in in another tab', async () => {
  const page = await browser.open(server, firstUsers.user, { path: 'systems' });
  await page.getByText('Live', { exact: true }).waitFor();
  await endSessions(firstUsers.user);
  const dialog = page.getByRole('dialog', { name: 'Your session has ended' });
  await dialog.waitFor();
  const tab = await page.context().newPage();
  await tab.goto(await createLink(server, firstUsers.user));
  await tab.getByRole('button', { name: 'Sign in' }).click();
  await dialog.waitFor({ state: 'hidden' });
  await page.getByText('Live', { exact: true }).waitFor();
});

test('a page of one user starts again when another one has signed in', async () => {
  const page = await browser.open(server, firstUsers.user, { path: 'systems' });
  const tab = await page.context().newPage();
  await tab.goto(await createLink(server, firstUsers.admin));
  await tab.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText(`User ${firstUsers.admin}`).waitFor();
  assert.equal(await page.getByText(`User ${firstUsers.user}`).count(), 0);
});

async function endSessions(user: string): Promise<void> {
  const response = await fetch(`${server.url}/admin/users/${user}/sessions/`, {
    method: 'DELETE',
    headers: { authorization: `Bearer ${server.adminToken}` },
  });
  assert.equal(response.status, 200, await response.text());
}
