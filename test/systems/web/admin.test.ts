import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Page, Route } from 'playwright-core';
import { Bursar } from '#client';
import { firstUsers } from '../../support/server.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { expectAccessible, launchBrowser, type WebBrowser } from '../../support/web-page.ts';
import { waitForNotice } from './notice.ts';

const users = { auditor: '300002', operator: '300003', manager: '301340', other: '301341', ...firstUsers } as const;
const project = { hpc: 'hpc_one', project_name: 'proj_hpc_one_01' } as const;
const projectPath = `admin/projects/${project.hpc}/${project.project_name}`;

let server: ServerProcess;
let browser: WebBrowser;
let admin: Bursar;

before(async () => {
  [server, browser] = await Promise.all([spawnServer(), launchBrowser()]);
  admin = new Bursar({ url: server.url, token: server.adminToken });
  await server.token(users.auditor, { role: 'auditor' });
  await server.token(users.operator, { role: 'operator' });
  await server.token(users.other);
  await server.token(users.manager);
  const body = { status: 'active', role: 'manager', reason: 'leads the group' } as const;
  await admin.api.setMember({ path: { ...project, user_id: users.manager }, body });
});

after(async () => {
  try {
    await browser?.close();
  } finally {
    await server?.dispose();
  }
});

/** The open form. Short messages have the role of a dialog, too. */
const openDialog = (page: Page) => page.getByRole('dialog').filter({ has: page.getByLabel('Reason') });

/** Fills the reason of the open dialog, presses its button, and waits for the notice, if there is one. */
async function confirm(page: Page, button: string, reason: string, notice = ''): Promise<void> {
  const dialog = openDialog(page);
  await dialog.getByLabel('Reason').fill(reason);
  const pressed = dialog.getByRole('button', { name: button, exact: true });
  await Promise.all([waitForNotice(page, notice), pressed.click()]);
  await dialog.waitFor({ state: 'hidden' });
}

const everything = ['All jobs', 'Users', 'Projects', 'Usage', 'System control', 'Audit', 'Ledger'];
const navigation = {
  admin: everything,
  auditor: everything,
  operator: ['All jobs', 'Users', 'Projects', 'Usage', 'System control'],
  manager: ['All jobs', 'Projects', 'Usage'],
  user: [],
} as const;

for (const [role, titles] of Object.entries(navigation) as [keyof typeof navigation, readonly string[]][]) {
  test(`the navigation has the pages that the ${role} may read`, async () => {
    const page = await browser.open(server, users[role]);
    const links = page.getByRole('navigation', { name: 'Administration' }).getByRole('link');
    assert.deepEqual(await links.allTextContents(), titles);
    await page.context().close();
  });
}

test('a user without a role is told that a page is not for them', async () => {
  const page = await browser.open(server, users.user);
  for (const path of ['users', `users/${users.other}`, 'projects', 'systems', 'audit', 'ledger', 'usage']) {
    await page.goto(`/app/admin/${path}`);
    await page.getByRole('heading', { name: 'You may not see this' }).waitFor();
    await page.getByText(/This request is for .*administrators/).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Try again' }).count(), 0);
  }
  await page.goto(`/app/${projectPath}`);
  await page.getByText(/managers of the project/).waitFor();
  await expectAccessible(page);
  await page.context().close();
});

test('roles that only read see no buttons that change something', async () => {
  const page = await browser.open(server, users.auditor, { path: `admin/users/${users.other}` });
  await page.getByRole('heading', { name: 'Sessions' }).waitFor();
  for (const [path, text] of [
    [`admin/users/${users.other}`, 'List of tokens'],
    [projectPath, 'List of members'],
    ['admin/systems', 'hpc_two'],
  ] as const) {
    await page.goto(`/app/${path}`);
    await page.getByRole('region', { name: text }).waitFor();
    const buttons = await page.getByRole('main').getByRole('button').allTextContents();
    assert.deepEqual(buttons, [], path);
  }
  await page.context().close();
});

test('a grant shows its effect, is applied once, and changes the open page of the member', async () => {
  const member = await browser.open(server, users.user, { path: 'quotas' });
  await member.getByText('5,000 core-h').first().waitFor();
  const page = await browser.open(server, users.admin, { path: projectPath });
  await page.getByRole('button', { name: `Quota of user ${users.user}` }).click();
  const dialog = openDialog(page);
  await dialog.getByLabel('Amount in core-hours').fill('1,000');
  const preview = dialog.getByRole('status', { name: 'Preview of the effect' });
  await preview.getByText(`user ${users.user}: 5,000 core-h → 6,000 core-h`).waitFor();
  await expectAccessible(page);
  await dialog.getByLabel('Reason').fill('approved by the committee');
  // The first response is lost, after a second click: neither applies it twice.
  const { promise: clickedTwice, resolve: loseResponse } = Promise.withResolvers<void>();
  const lose = (route: Route) => route.fetch().then(() => clickedTwice.then(() => route.abort()));
  await page.route('**/admin/grants/**', lose, { times: 1 });
  await dialog.getByRole('button', { name: 'Grant', exact: true }).dblclick();
  loseResponse();
  await dialog.getByText('The server cannot be reached').waitFor();
  await confirm(page, 'Grant', 'approved by the committee', `1,000 core-h granted to user ${users.user}`);
  await member.getByText('6,000 core-h').first().waitFor();
  const quota = await admin.api.getQuotaOfUser({ path: { ...project, user_id: users.user } });
  assert.equal(quota.time_left, 6000 * 3600);
  await member.context().close();
  await page.context().close();
});

test('a change that the accounts do not cover is refused before it is sent', async () => {
  const page = await browser.open(server, users.admin, { path: projectPath });
  await page.getByRole('button', { name: 'Change the pool' }).click();
  const dialog = openDialog(page);
  await dialog.getByLabel('Change').selectOption('withdraw');
  await dialog.getByLabel('Amount in core-hours').fill('1');
  await dialog.getByLabel('Reason').fill('no longer needed');
  await dialog.getByText('More than the reserve of the pool: 0 core-h.').waitFor();
  assert.ok(await dialog.getByRole('button', { name: 'Withdraw', exact: true }).isDisabled());
  await dialog.getByLabel('Change').selectOption('top_up');
  await dialog.getByLabel('Amount in core-hours').fill('500');
  await confirm(page, 'Grant', 'reserve of the year');
  await page.getByText('500 core-h granted to no member').waitFor();
  await page.context().close();
});

test('a manager distributes the reserve of the project, and nothing else', async () => {
  const page = await browser.open(server, users.manager, { path: 'admin/projects' });
  await page.getByRole('link', { name: 'Members and quotas' }).click();
  await page.getByRole('button', { name: `Quota of user ${users.other}` }).click();
  for (const name of ['Change the pool', 'Add a member', 'New period', 'Refund a job', 'Close project'])
    assert.equal(await page.getByRole('button', { name }).count(), 0, name);
  const dialog = openDialog(page);
  assert.ok(await dialog.getByLabel('From').isDisabled());
  await dialog.getByLabel('Amount in core-hours').fill('100');
  await dialog.getByText('reserve of the pool: 500 core-h → 400 core-h').waitFor();
  await confirm(page, 'Grant', 'more samples');
  await page.getByText('400 core-h granted to no member').waitFor();
  await page.getByRole('button', { name: `Transfer of user ${users.other}` }).click();
  await dialog.getByLabel('To').selectOption(users.user);
  await dialog.getByLabel('Amount in core-hours').fill('50');
  await dialog.getByText(`user ${users.user}: 6,000 core-h → 6,050 core-h`).waitFor();
  const moved = `50 core-h moved from user ${users.other} to user ${users.user}`;
  await confirm(page, 'Transfer', 'they share the samples', moved);
  await page.context().close();
});

test('a project is created, gets a member and a period, and is closed', async () => {
  const page = await browser.open(server, users.admin, { path: 'admin/projects' });
  await page.getByRole('button', { name: 'New project' }).click();
  const dialog = openDialog(page);
  await dialog.getByLabel('Name').fill('Climate');
  await dialog.getByText('Use small letters').waitFor();
  await dialog.getByLabel('Name').fill('climate');
  await dialog.getByLabel('Each new member in core-hours').fill('10');
  await expectAccessible(page);
  await confirm(page, 'Create', 'new group');
  await page.getByRole('heading', { level: 1, name: 'climate' }).waitFor();

  await page.getByRole('button', { name: 'Add a member' }).click();
  await dialog.getByLabel('User').fill(users.other);
  await confirm(page, 'Add', 'new in the group');
  await page.getByRole('region', { name: 'List of members' }).getByText('10 core-h').first().waitFor();

  await page.getByRole('button', { name: 'New period' }).click();
  await dialog.getByLabel('Each member in core-hours').fill('20');
  await dialog.getByLabel('Reserve in core-hours').fill('5');
  await dialog.getByText('pool of the project: 25 core-h, of which 5 core-h reserve').waitFor();
  await confirm(page, 'Open the period', 'grant of the next year');
  await page.getByText('5 core-h granted to no member').waitFor();

  await page.getByRole('button', { name: `Membership of user ${users.other}` }).click();
  await dialog.getByLabel('Status').selectOption('banned');
  await confirm(page, 'Ban', 'shares their password');
  await page.getByRole('region', { name: 'List of members' }).getByText('shares their password').waitFor();

  await page.getByRole('button', { name: 'Close project' }).click();
  await confirm(page, 'Close the project', 'the group has ended');
  await page.getByText('Closed', { exact: true }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Close project' }).count(), 0);
  await page.context().close();
});

test('a manager sees the usage of the managed project only', async () => {
  const page = await browser.open(server, users.manager, { path: 'admin/usage' });
  const filter = page.getByLabel('Project', { exact: true });
  await filter.waitFor();
  assert.deepEqual(await filter.locator('option').allTextContents(), [project.project_name]);
  const csv = page.getByRole('link', { name: /^CSV/ });
  assert.match((await csv.getAttribute('href')) ?? '', new RegExp(`project_name=${project.project_name}&format=csv$`));
  assert.equal(await page.getByText('You may not see this').count(), 0);
  await page.context().close();
});

test('charged time of a job is refunded, and the usage shows the rest', async () => {
  const user = new Bursar({ url: server.url, token: server.userToken });
  const job = await user.submit({
    hpc: 'hpc_one',
    command: 'sleep 1',
    title: 'Slow disk',
    coresPerNode: 100,
    runtime: 1,
  });
  await job.wait();
  const page = await browser.open(server, users.admin, { path: projectPath });
  await page.getByRole('button', { name: 'Refund a job' }).click();
  const dialog = openDialog(page);
  await dialog.getByLabel('Job').fill('unknown');
  await dialog
    .getByText('There is no such job')
    .or(dialog.getByText(/no job/))
    .waitFor();
  await dialog.getByLabel('Job').fill(job.job_id);
  await dialog.getByText(`“Slow disk” of user ${users.user}`).waitFor();
  await dialog.getByLabel('Amount in core-hours').fill('1000');
  await dialog.getByText('More than was charged and is not refunded yet').waitFor();
  await dialog.getByLabel('Amount in core-hours').fill('0.01');
  await confirm(page, 'Refund', 'the file system was slow', '36 core-s refunded');

  await page.getByRole('link', { name: 'Usage', exact: true }).click();
  const row = page.getByRole('row', { name: /hpc_one proj_hpc_one_01/ });
  assert.match(await row.innerText(), /^\d{4}-\d\d\thpc_one\tproj_hpc_one_01\t1\t[\d.<]+/);
  await page.locator('canvas').waitFor();
  await page.getByLabel('System').selectOption('hpc_one');
  await page.waitForURL(/hpc=hpc_one/);
  const csv = await page.request.get((await page.getByRole('link', { name: 'CSV' }).getAttribute('href')) ?? '');
  assert.match(await csv.text(), /^user,project_hpc,project_name,month,jobs,time_seconds\r?\n/);
  await page.context().close();
});

test('an operator pauses a system with a reason that users see, and resumes it', async () => {
  const page = await browser.open(server, users.operator, { path: 'admin/systems' });
  await page.getByRole('button', { name: 'Pause hpc_two' }).click();
  await confirm(page, 'Pause', 'the cooling is replaced');
  await page.getByText(/paused since .*: the cooling is replaced/).waitFor();
  const user = await browser.open(server, users.user, { path: 'systems' });
  await user
    .getByText(/the cooling is replaced/)
    .first()
    .waitFor();
  await page.getByRole('button', { name: 'Resume hpc_two' }).click();
  await confirm(page, 'Resume', 'the cooling works');
  await page.getByRole('button', { name: 'Pause hpc_two' }).waitFor();
  await page.goto(`/app/admin/users/${users.other}`);
  await page.getByRole('button', { name: 'Revoke all' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Disable' }).count(), 0);
  for (const each of [page, user]) await each.context().close();
});

test('a disabled user is signed out, and the audit trail says why', async () => {
  const user = await browser.open(server, users.other, { path: 'quotas' });
  const page = await browser.open(server, users.admin, { path: 'admin/users' });
  await page.getByRole('searchbox', { name: 'Search' }).fill(users.other);
  await page.getByText('1 user', { exact: true }).waitFor();
  await page.getByRole('link', { name: users.other }).click();
  await page.getByRole('button', { name: 'Change role' }).click();
  await openDialog(page).getByLabel('Role').selectOption('auditor');
  await confirm(page, 'Change role', 'audits the year');
  await page.getByText('Auditor', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Disable' }).click();
  await confirm(page, 'Disable', 'has left the institute');
  await page.getByText('Disabled', { exact: true }).waitFor();
  await user.reload();
  await user.getByRole('heading', { name: /Sign in/ }).waitFor();

  await page.getByRole('link', { name: 'Acts on this user' }).click();
  await page.getByRole('cell', { name: 'has left the institute' }).waitFor();
  await page.getByRole('link', { name: 'user.disable' }).click();
  await page.getByRole('cell', { name: 'audits the year' }).waitFor({ state: 'detached' });
  assert.match(page.url(), /action=user\.disable/);
  assert.equal(await page.getByLabel('Action', { exact: true }).inputValue(), 'user.disable');
  await page.getByRole('button', { name: /^More about record/ }).click();
  await page.getByText('"reason": "has left the institute"').waitFor();
  await expectAccessible(page);
  const csv = await page.request.get(
    (await page.getByRole('link', { name: 'CSV', exact: true }).getAttribute('href')) ?? '',
  );
  assert.equal((await csv.text()).trim().split(/\r?\n/).length, 2);
  await page.goBack();
  await page.getByRole('cell', { name: 'audits the year' }).waitFor();
  for (const each of [page, user]) await each.context().close();
});

test('the audit trail is read page by page, back and forth', async () => {
  const { body, path } = { body: { reason: 'fills the trail' }, path: { hpc: 'hpc_two' } };
  for (let count = 0; count < 51; count++) {
    await admin.api.pauseSystem({ path, body });
    await admin.api.resumeSystem({ path, body });
  }
  const page = await browser.open(server, users.auditor, { path: 'admin/audit?action=system' });
  const rows = page.getByRole('region', { name: 'Audit records' }).getByRole('row');
  await rows.nth(100).waitFor();
  assert.equal(await rows.count(), 101);
  await page.getByRole('link', { name: 'Older' }).click();
  await page.getByRole('cell', { name: 'the cooling is replaced' }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'Older' }).count(), 0);
  await page.getByRole('link', { name: 'Newer' }).click();
  await rows.nth(100).waitFor();
  assert.equal(await page.getByRole('link', { name: 'Newer' }).count(), 0);
  await page.context().close();
});

test('the verification of the ledger says that it is balanced, and when', async () => {
  const page = await browser.open(server, users.auditor, { path: 'admin/ledger' });
  await page.getByRole('button', { name: 'Verify the ledger' }).click();
  await page.getByText('Balanced', { exact: true }).waitFor();
  const facts = await page.getByRole('main').innerText();
  assert.match(facts, /Checked\s+\d+ \w+ \d{4}, \d\d:\d\d/);
  assert.match(facts, /Accounts\s+\d+\s+Entries\s+\d+/);
  await expectAccessible(page);
  await page.context().close();
});
