import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Account, AuditRecord, Job, Member, Project, Session, Token, User, Webhook } from '#client';
import { type Caller, createCaller } from '../../support/api.ts';
import { cancelJob, releaseJob, submitShellLine, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import { firstUsers, startServer, type TestServer } from '../../support/server.ts';
import { signIn } from '../../support/sign-in.ts';
import { registerWebhook, webhookConfig, webhookTuning } from '../../support/webhooks.ts';
import { createProgramFixture, type ProgramFixture, parseTable } from './program-fixture.ts';

const { user } = firstUsers;
const reason = ['--reason', 'a test'];
const projectOne = 'hpc_one/proj_hpc_one_01';

describe('bursar admin', () => {
  let server: TestServer;
  let admin: ProgramFixture;
  let api: Caller;
  let me: Caller;
  before(async () => {
    server = await startServer({ config: webhookConfig(), tuning: webhookTuning });
    admin = createProgramFixture(server.url, server.adminToken);
    api = createCaller(server.url, server.adminToken);
    me = createCaller(server.url, server.userToken);
  });
  after(async () => {
    admin.dispose();
    await server.dispose();
  });

  /** Runs a command that lists objects, in all its forms. Returns the objects, which are those of the API. */
  async function list<T>(path: string, ...args: string[]): Promise<T[]> {
    const objects = await admin.json<T[]>(...args);
    assert.deepEqual(objects, (await api.get(path)).body);
    const pipe = await admin.run(...args);
    assert.equal(pipe.code, 0, pipe.stderr);
    assert.equal(parseTable(pipe.stdout).length, objects.length, pipe.stdout);
    const terminal = await admin.onTerminal(...args);
    assert.equal(terminal.code, 0, terminal.stderr);
    assert.equal(terminal.stdout.split('\n').length - 2, objects.length || -1, terminal.stdout);
    return objects;
  }

  /** Runs a command that prints a message about its success to people. Returns the message. */
  async function message(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await admin.run(...args);
    assert.deepEqual([code, stdout], [0, ''], stderr);
    return stderr;
  }

  async function refused(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await admin.run(...args);
    assert.deepEqual([code, stdout], [2, ''], stderr);
    return stderr;
  }

  test('users are listed, shown, disabled, enabled and get roles', async () => {
    await server.token('303301');
    const users = await list<User>('/admin/users/', 'admin', 'users');
    assert.ok(users.some((each) => each.user === '303301'));
    assert.deepEqual(await admin.json('admin', 'user', 'show', '303301'), (await api.get('/admin/users/303301/')).body);
    assert.match((await admin.run('admin', 'user', 'show', '303301')).stdout, /^user\t303301\nrole\tuser\n/);
    assert.match(await refused('admin', 'user', 'disable', '303301'), /--reason/);
    assert.equal(await message('admin', 'user', 'disable', '303301', ...reason), 'User 303301: user, disabled.\n');
    assert.match((await admin.onTerminal('admin', 'users')).stdout, /303301 .*(now|ago)/);
    const enabled = await admin.json<User>('admin', 'user', 'enable', '303301', ...reason);
    assert.equal(enabled.disabled_at, null);
    assert.equal(
      await message('admin', 'user', 'role', '303301', 'auditor', ...reason),
      'User 303301: auditor, enabled.\n',
    );
    const wrong = await admin.run('admin', 'user', 'role', '303301', 'king', ...reason);
    assert.notEqual(wrong.code, 0);
    assert.match(wrong.stderr, /role/);
  });

  test('tokens and sessions of a user are listed, revoked and ended', async () => {
    await server.token('303302', { name: 'first' });
    await server.token('303302', { name: 'second' });
    const path = '/admin/users/303302/tokens/';
    const tokens = await list<Token>(path, 'admin', 'user', 'tokens', '303302');
    assert.deepEqual(new Set(tokens.map(({ name }) => name)), new Set(['first', 'second']));
    const first = tokens.find(({ name }) => name === 'first');
    const revoked = parseTable((await admin.run('admin', 'user', 'revoke-tokens', '303302', String(first?.id))).stdout);
    assert.deepEqual(
      revoked.map(({ name, state }) => [name, state]),
      [['first', 'revoked']],
    );
    const others = await admin.json<Token[]>('admin', 'user', 'revoke-tokens', '303302');
    assert.deepEqual(
      others.map(({ name }) => name),
      ['second'],
    );
    await signIn(server, '303302');
    const sessions = await list<Session>('/admin/users/303302/sessions/', 'admin', 'user', 'sessions', '303302');
    assert.equal(sessions.length, 1);
    assert.equal((await admin.json<Session[]>('admin', 'user', 'end-sessions', '303302')).length, 1);
    const none = await admin.onTerminal('admin', 'user', 'end-sessions', '303302');
    assert.match(none.stderr, /signed in in no browser/);
  });

  test('projects are created, listed and closed, and their members change', async () => {
    const project = 'hpc_one/proj_clitest';
    const create = ['admin', 'project', 'create', project, '--space', '1000', ...reason];
    assert.match(await refused(...create), /--time/);
    assert.match(await refused(...create, '--time', '1h'), /--time must be a whole number; it is "1h"/);
    assert.match(await refused('admin', 'project', 'members', 'proj_clitest'), /Write system\/project/);
    const key = ['--key', 'create-once'];
    assert.equal(await message(...create, '--time', '7200', ...key), `Project ${project} is created.\n`);
    assert.equal((await admin.json<Project>(...create, '--time', '7200', ...key)).project_name, 'proj_clitest');
    await list('/admin/projects/', 'admin', 'projects');
    const onOne = await list<Project>('/admin/projects/hpc_one/', 'admin', 'projects', '--system', 'hpc_one');
    assert.ok(onOne.some(({ project_name: name }) => name === 'proj_clitest'));
    const row = parseTable((await admin.run('admin', 'projects')).stdout).find(
      (each) => each.project === 'proj_clitest',
    );
    assert.deepEqual([row?.hours, row?.space, row?.closed], ['2', '1000', '']);

    const setMember = ['admin', 'project', 'set-member', project, user, ...reason];
    assert.match(await refused(...setMember, '--status', 'gone'), /active, removed, banned/);
    // Somebody who is not a member becomes one.
    assert.equal(await message(...setMember), `User ${user}: member, active.\n`);
    assert.match(await refused(...setMember), new RegExp(`Nothing would change: user ${user} is in the project`));
    assert.equal(await message(...setMember, '--role', 'manager'), `User ${user}: manager, active.\n`);
    const membersPath = '/admin/projects/hpc_one/proj_clitest/members/';
    const members = await list<Member>(membersPath, 'admin', 'project', 'members', project);
    assert.deepEqual(
      members.map((member) => [member.user, member.role]),
      [[user, 'manager']],
    );
    assert.equal((await admin.json<Member>(...setMember, '--status', 'banned')).status, 'banned');
    // Another role ends no ban.
    assert.equal(await message(...setMember, '--role', 'member'), `User ${user}: member, banned.\n`);
    assert.equal(await message('admin', 'project', 'close', project, ...reason), `Project ${project} is closed.\n`);
    const closed = (await admin.json<Project[]>('admin', 'projects')).find(({ closed_at: at }) => at !== null);
    assert.equal(closed?.project_name, 'proj_clitest');
    const unknown = await admin.run('admin', 'project', 'close', 'hpc_one/proj_unknown', ...reason);
    assert.equal(unknown.code, 1, unknown.stderr);
  });

  test('grants change the quotas: top-up, withdrawal, reserve, transfer, refund and period', async () => {
    await server.token('303303');
    const grant = (...args: string[]) => ['admin', 'grant', projectOne, ...args, ...reason];
    assert.match(await refused(...grant('--user', user)), /either --time or --space/);
    assert.match(await refused(...grant('--time', '1', '--from-pool')), /Give --user/);
    const accounts = await admin.json<Account[]>(...grant('--user', user, '--time', '100'));
    const before = accounts.find((account) => account.user === user);
    assert.equal(before?.resource, 'time');
    const rows = parseTable((await admin.run(...grant('--user', user, '--time', '40', '--withdraw'))).stdout);
    assert.equal(Number(rows.find(({ account }) => account === user)?.available), (before?.available ?? 0) - 40);
    const poolOf = (table: string) =>
      Number(parseTable(table).find(({ account }) => account === 'pool of the project')?.granted);
    const pool = poolOf((await admin.run(...grant('--time', '500'))).stdout);
    const fromPool = await admin.onTerminal(...grant('--user', user, '--time', '5', '--from-pool'));
    assert.match(fromPool.stdout, new RegExp(`^${user} +time +seconds +18,000,065 `, 'm'), fromPool.stderr);
    assert.equal(poolOf((await admin.run(...grant('--time', '495', '--withdraw'))).stdout), pool - 495);

    const transfer = ['admin', 'transfer', projectOne, '--from', user, '--to', '303303', ...reason];
    assert.match(await refused(...transfer), /either --time or --space/);
    const moved = await admin.json<Account[]>(...transfer, '--space', '10', '--key', 'transfer-once');
    assert.deepEqual(new Set(moved.map((each) => each.user)), new Set([user, '303303']));
    const repeated = await admin.run(...transfer, '--space', '10', '--key', 'transfer-once');
    assert.equal(repeated.code, 0, repeated.stderr);
    assert.equal(
      Number(parseTable(repeated.stdout).find((each) => each.account === '303303')?.available),
      moved.find((each) => each.user === '303303')?.available,
    );

    const { body: job } = await me.submit('/jobs/hpc_one/', { command: 'sleep 1.1', title: 'refunded' });
    await me.waitUntilFinished(job);
    const refund = ['admin', 'refund', projectOne, '--job', job.job_id, ...reason];
    assert.match(await refused(...refund, '--time', 'all'), /whole number/);
    const refunded = parseTable((await admin.run(...refund, '--time', '1')).stdout);
    assert.ok(refunded.some((each) => each.account === user && each.resource === 'time'));
    assert.equal((await admin.run(...refund, '--time', '1000000')).code, 1);

    const open = ['admin', 'open-period', 'hpc_two/proj_hpc_two_02', '--member', '1000', ...reason];
    assert.match(await refused(...open, '--starts', 'soon'), /"soon" is not a time/);
    assert.match(await message(...open, '--ends', '2100-01-01'), /^Period \d+ from 20.* to 2100-01-01T/);
    const later = [
      'admin',
      'open-period',
      'hpc_two/proj_hpc_two_01',
      '--member',
      '1',
      '--starts',
      '7d',
      '--ends',
      '30d',
    ];
    const period = await admin.json<{ starts: string; ends: string }>(...later, ...reason);
    const daysFromNow = (time: string) => Math.round((Date.parse(time) - Date.now()) / 86_400_000);
    assert.deepEqual([daysFromNow(period.starts), daysFromNow(period.ends)], [7, 30]);
  });

  test('jobs of all users are listed, shown, followed, cancelled and deleted', async () => {
    const { body: job } = await submitShellLine(me, '/jobs/hpc_one/', `echo out; ${waitForGoScript}; exit 3`, {
      title: 'admin',
    });
    const { body: other } = await submitShellLine(me, '/jobs/hpc_one/', waitForGoScript, { title: 'other' });
    await waitForStage(me, job, 'RUNNING');
    await waitForStage(me, other, 'RUNNING');
    await list('/admin/jobs/?terminal=false', 'admin', 'jobs', '--unfinished');
    await list('/admin/jobs/?hpc=hpc_one', 'admin', 'jobs', '--system', 'HPC_ONE');
    const filters = ['--user', user, '--system', 'hpc_one', '--project', 'proj_hpc_one_01', '--stage', 'RUNNING'];
    const rows = parseTable((await admin.run('admin', 'jobs', ...filters, '--since', '1h')).stdout);
    assert.deepEqual(
      new Set(rows.map((row) => `${row.job} ${row.owner}`)),
      new Set([`${job.job_id} ${user}`, `${other.job_id} ${user}`]),
    );
    assert.match(await refused('admin', 'jobs', '--since', 'ever'), /"ever" is not a time/);

    const one = ['admin', 'job'];
    assert.equal((await admin.json<Job>(...one, 'show', job.job_id)).job_id, job.job_id);
    assert.match((await admin.run(...one, 'show', job.job_id.slice(0, 13))).stdout, new RegExp(`owner\t${user}\n`));
    assert.match((await admin.run(...one, 'timeline', job.job_id)).stdout, /job\.running/);
    assert.deepEqual(await admin.json(...one, 'files', job.job_id), []);
    const following = admin.start(...one, 'log', '-f', job.job_id);
    await following.waitFor('out\n');
    assert.equal((await admin.run(...one, 'log', job.job_id)).stdout, 'out\n');
    releaseJob(server, job);
    assert.equal((await following.ended).code, 100, following.stderr());

    assert.match(await refused(...one, 'cancel', other.job_id), /--reason/);
    assert.match(await message(...one, 'cancel', other.job_id, ...reason), /is being cancelled|has ended: CANCELED/);
    await me.waitUntilFinished(other);
    assert.equal((await admin.run(...one, 'log', '-f', other.job_id)).code, 103);
    assert.match(await refused(...one, 'delete', job.job_id), /--reason/);
    assert.match(await message(...one, 'delete', job.job_id, ...reason), /The files of the job .* are deleted/);
    assert.equal((await admin.json<Job>(...one, 'delete', other.job_id, ...reason)).stage, 'DELETED');
  });

  test('Ctrl-C while the log of another user is followed names the command of administrators', async () => {
    const { body: job } = await submitShellLine(me, '/jobs/hpc_one/', `echo out; ${waitForGoScript}`);
    const following = admin.start('admin', 'job', 'log', '-f', job.job_id);
    await following.waitFor('out\n');
    following.interrupt();
    const { code, stderr } = await following.ended;
    assert.deepEqual([code, stderr.split('\n')[1]], [101, `  bursar admin job log -f ${job.job_id}`]);
    await cancelJob(me, job);
  });

  test('quotas, statements, usage and events of other users are shown', async () => {
    await list('/admin/quotas/', 'admin', 'quotas');
    await list(`/admin/quotas/${user}/`, 'admin', 'quotas', user);
    await list('/admin/quotas/?hpc=hpc_two', 'admin', 'quotas', '--system', 'hpc_two');
    const one = parseTable((await admin.run('admin', 'quotas', user, '--system', 'hpc_one')).stdout);
    assert.deepEqual(new Set(one.map((row) => `${row.user} ${row.system}`)), new Set([`${user} hpc_one`]));
    const statement = ['admin', 'statement', user, projectOne];
    assert.match((await admin.run(...statement)).stdout, /^when\tkind\tchange\tbalance\t/);
    assert.equal((await admin.json<{ user: string }>(...statement)).user, user);
    // A project that the administrator is not a member of is named by its name alone.
    assert.match(
      await refused('admin', 'statement', user, 'proj_unknown'),
      /one of the projects of 301330\.\n.*proj_clitest/,
    );
    assert.match((await admin.run(...statement, '--csv')).stdout, /^\S+,\S+/);
    assert.match((await admin.onTerminal(...statement)).stdout, new RegExp(` ${projectOne} of ${user}, `));
    assert.match(await refused(...statement, '--csv', '--json'), /exclude each other/);
    await list('/admin/usage/', 'admin', 'usage');
    await list(`/admin/usage/${user}/`, 'admin', 'usage', user);
    await list('/admin/usage/?hpc=hpc_one', 'admin', 'usage', '--system', 'hpc_one');
    assert.match((await admin.run('admin', 'usage', '--csv')).stdout, /^\S+,\S+/);
    const events = await admin.json<{ id: number }[]>('admin', 'events', user);
    assert.ok(events.length > 0);
    assert.equal(parseTable((await admin.run('admin', 'events', user, '--limit', '2')).stdout).length, 2);
    assert.match(await refused('admin', 'events', user, '--after', 'now'), /"now" is not a number/);
  });

  test('systems are listed, paused and resumed', async () => {
    const systems = await list<{ hpc: string }>('/admin/systems/', 'admin', 'systems');
    assert.equal(systems.length, 2);
    assert.match((await admin.run('admin', 'systems', 'hpc_one')).stdout, /^system\thpc_one\nstatus\t/);
    assert.match(await refused('admin', 'pause', 'hpc_two'), /--reason/);
    assert.equal(await message('admin', 'pause', 'hpc_two', ...reason), 'hpc_two is paused and accepts no jobs.\n');
    assert.match((await admin.run('admin', 'systems', 'hpc_two')).stdout, /paused\ta test\n/);
    const resumed = await admin.json<{ paused_at: string | null }>('admin', 'resume', 'hpc_two', ...reason);
    assert.equal(resumed.paused_at, null);
  });

  test('webhooks of users are listed, disabled and enabled', async () => {
    const { id } = await registerWebhook(me, 'http://127.0.0.1:9/hook');
    await list('/admin/webhooks/', 'admin', 'webhooks');
    await list(`/admin/webhooks/${user}/`, 'admin', 'webhooks', user);
    const one = [user, String(id), ...reason];
    assert.equal(await message('admin', 'disable-webhook', ...one), `Webhook ${id} of ${user} is disabled.\n`);
    assert.match((await admin.run('admin', 'webhooks')).stdout, /\tdisabled by administrator\t/);
    assert.equal((await admin.json<Webhook>('admin', 'enable-webhook', ...one)).active, true);
    assert.match(await refused('admin', 'enable-webhook', user, String(id)), /--reason/);
  });

  test('the audit trail is listed with filters, and the ledger is added up', async () => {
    const filters = [
      '--actor',
      firstUsers.admin,
      '--action',
      'user.disable',
      '--subject',
      '303301',
      '--from',
      '1h',
      '--limit',
      '5',
    ];
    const [record, ...others] = await admin.json<AuditRecord[]>('admin', 'audit', ...filters);
    assert.deepEqual([record?.subject, others.length], ['303301', 0], JSON.stringify(record));
    assert.deepEqual(parseTable((await admin.run('admin', 'audit', ...filters)).stdout)[0]?.id, String(record?.id));
    assert.match((await admin.onTerminal('admin', 'audit')).stdout, /Id +When +Actor/);
    const csv = await admin.run('admin', 'audit', '--csv', '--limit', '1');
    assert.equal(csv.stdout.trimEnd().split('\n').length, 2, csv.stdout);
    assert.match(await refused('admin', 'audit', '--csv', '--json'), /exclude each other/);
    assert.match(await refused('admin', 'audit', '--limit', 'x'), /--limit/);
    const proof = await admin.json<{ balanced: boolean }>('admin', 'verify-ledger');
    assert.equal(proof.balanced, true);
    assert.match((await admin.run('admin', 'verify-ledger')).stdout, /^balanced\tyes\naccounts\t\d+\nentries\t\d+\n$/);
  });

  test('a user without a role is told so, and nothing happens', async () => {
    const mine = createProgramFixture(server.url, server.userToken);
    const { code, stdout, stderr } = await mine.run('admin', 'users');
    mine.dispose();
    assert.deepEqual([code, stdout], [1, ''], stderr);
    assert.match(stderr, /^error: /);
  });
});
