import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  type AccountingFixture,
  adminId,
  defaultProject,
  defaultProjectPath,
  openAccountingFixture,
} from '../support/accounting-fixture.ts';
import type { Caller, Job, Quota } from '../support/api.ts';
import {
  type Account,
  assertLedgerBalances,
  assertStatementAddsUp,
  getLedgerVerification,
  getStatement,
  type LedgerVerification,
  listJobMovements,
  postAsAdmin,
  runJob,
  verifyLedgerOf,
} from '../support/ledger.ts';
import type { ProgramOutcome } from '../support/program.ts';

// The commands run while a server uses the same database.

const granted = 50_000;
const user = '302601';
const otherUser = '302602';
const reasonOption = ['--reason', 'because of a test'];
let fixture: AccountingFixture;
let me: Caller;
let job: Job;
let charged: number;

before(async () => {
  fixture = await openAccountingFixture({ timeSeconds: granted, spaceKb: 100 });
  me = await fixture.user(user);
  for (const id of [otherUser, '302603']) await fixture.user(id);
  job = await runJob(me, { command: 'true', core_number: 20, runtime: 0.1 });
  charged = (await listJobMovements(me, job)).at(-1)?.used ?? Number.NaN;
});
after(() => fixture.dispose());

const getQuota = async (id: string): Promise<Quota> =>
  (await fixture.user(id)).quota(defaultProject.hpc, defaultProject.project);

/** Parses the output of a command that must succeed and print nothing but JSON. */
function parseOutput<T = Account[]>({ code, stdout, stderr }: ProgramOutcome): T {
  assert.deepEqual([code, stderr], [0, ''], stdout);
  return JSON.parse(stdout) as T;
}

function assertRejected({ code, stdout, stderr }: ProgramOutcome, exitCode: number, message: RegExp): void {
  assert.equal(code, exitCode, stderr);
  assert.equal(stdout, '');
  assert.match(stderr, message);
  assert.doesNotMatch(stderr, /\n\s+at .*:\d+/, 'a stack trace');
}

describe('bursar grant', () => {
  test("increases a member's quota at once and prints the accounts", async () => {
    const before = (await getQuota(user)).time_left;
    const [pool, cap] = parseOutput(
      await fixture.bursar('grant', defaultProjectPath, '--user', user, '--time', '500', ...reasonOption),
    );
    assert.deepEqual([pool?.user, cap?.user, cap?.resource, cap?.unit], [null, user, 'time', 'seconds']);
    assert.equal(cap?.available, before + 500);
    assert.equal((await getQuota(user)).time_left, before + 500);
    const last = (await getStatement(me)).time.movements.at(-1);
    assert.deepEqual([last?.kind, last?.change, last?.reason], ['top_up', 500, 'because of a test']);
  });

  test('--withdraw reduces it; --space is in KB', async () => {
    const [, cap] = parseOutput(
      await fixture.bursar('grant', defaultProjectPath, '--user', user, '--space', '30', '--withdraw', ...reasonOption),
    );
    assert.deepEqual([cap?.unit, cap?.granted], ['KB', 70]);
    assert.equal((await getStatement(me)).space.closing_balance, (await getQuota(user)).space_left);
  });

  test('increases the reserve of the project, from which --from-pool grants to a member', async () => {
    const before = (await getQuota(otherUser)).time_left;
    const [pool] = parseOutput(await fixture.bursar('grant', defaultProjectPath, '--time', '40', ...reasonOption));
    assert.equal(pool?.user, null);
    const [same] = parseOutput(
      await fixture.bursar(
        'grant',
        defaultProjectPath,
        '--user',
        otherUser,
        '--time',
        '40',
        '--from-pool',
        ...reasonOption,
      ),
    );
    assert.equal(same?.granted, pool?.granted);
    assert.equal((await getQuota(otherUser)).time_left, before + 40);
    const more = await fixture.bursar(
      'grant',
      defaultProjectPath,
      '--user',
      otherUser,
      '--time',
      '1',
      '--from-pool',
      ...reasonOption,
    );
    assertRejected(more, 1, /not allocated to any member: 0/);
  });

  test('with --key takes effect once, and rejects the same key with another amount', async () => {
    const before = (await getQuota(user)).time_left;
    const command = ['grant', defaultProjectPath, '--user', user, ...reasonOption, '--key', 'ticket-4711'];
    const first = parseOutput(await fixture.bursar(...command, '--time', '8'));
    assert.deepEqual(parseOutput(await fixture.bursar(...command, '--time', '8')), first);
    assert.equal((await getQuota(user)).time_left, before + 8);
    assertRejected(await fixture.bursar(...command, '--time', '9'), 1, /Idempotency-Key|key/);
    assert.equal((await getQuota(user)).time_left, before + 8);
  });

  test('fails with 1 and changes nothing if it would withdraw more than is available', async () => {
    const before = (await getQuota(user)).time_left;
    const command = ['grant', defaultProjectPath, '--user', user, '--time', '99999999', '--withdraw', ...reasonOption];
    assertRejected(await fixture.bursar(...command), 1, new RegExp(`: ${before} seconds\\.`));
    assert.equal((await getQuota(user)).time_left, before);
  });
});

describe('exit codes of invalid ledger commands', () => {
  const cases: [mistake: string, exitCode: number, message: RegExp, args: string[]][] = [
    ['no reason', 2, /--reason/, ['grant', defaultProjectPath, '--time', '1']],
    ['no amount', 2, /--time.*--space/, ['grant', defaultProjectPath, ...reasonOption]],
    ['no project', 2, /hpc_one/, ['grant', 'hpc_one', '--time', '1', ...reasonOption]],
    ['an unknown project', 4, /project/, ['grant', 'hpc_one/nowhere', '--time', '1', ...reasonOption]],
    [
      'an unknown member',
      4,
      /999999/,
      ['grant', defaultProjectPath, '--user', '999999', '--time', '1', ...reasonOption],
    ],
    [
      'no recipient of a transfer',
      2,
      /--to/,
      ['transfer', defaultProjectPath, '--from', user, '--time', '1', ...reasonOption],
    ],
    [
      'an unknown job',
      4,
      /NO-SUCH/,
      ['refund', defaultProjectPath, '--job', 'NO-SUCH', '--time', '1', ...reasonOption],
    ],
  ];
  for (const [mistake, exitCode, message, args] of cases) {
    test(`${mistake}: ${exitCode}`, async () => {
      assertRejected(await fixture.bursar(...args), exitCode, message);
    });
  }

  test('an empty reason: 2', async () => {
    const command = ['grant', defaultProjectPath, '--user', '302603', '--time', '1', '--reason'];
    assertRejected(await fixture.bursar(...command, ''), 2, /reason/);
  });
});

describe('bursar transfer', () => {
  test('moves quota from one member to another, and fails with 1 if it is more than is available', async () => {
    const [from, to] = [(await getQuota(user)).time_left, (await getQuota(otherUser)).time_left];
    const command = ['transfer', defaultProjectPath, '--from', user, '--to', otherUser, ...reasonOption];
    const accounts = parseOutput(await fixture.bursar(...command, '--time', '123'));
    assert.deepEqual(
      accounts.map((account) => account.user),
      [user, otherUser],
    );
    assert.deepEqual([(await getQuota(user)).time_left, (await getQuota(otherUser)).time_left], [from - 123, to + 123]);
    assertRejected(await fixture.bursar(...command, '--time', '99999999'), 1, new RegExp(user));
  });
});

describe('bursar refund', () => {
  test('refunds in steps, once for each key, and never more than was charged', async () => {
    const before = (await getQuota(user)).time_left;
    const command = ['refund', defaultProjectPath, '--job', job.job_id, ...reasonOption];
    parseOutput(await fixture.bursar(...command, '--time', '5', '--key', 'refund-1'));
    parseOutput(await fixture.bursar(...command, '--time', '5', '--key', 'refund-1'));
    assert.equal((await getQuota(user)).time_left, before + 5);
    assertRejected(
      await fixture.bursar(...command, '--time', String(charged - 4)),
      1,
      new RegExp(`: ${charged - 5} seconds\\.`),
    );
    parseOutput(await fixture.bursar(...command, '--time', String(charged - 5)));
    assert.equal((await getQuota(user)).time_left, before + charged);
    await assertStatementAddsUp(me);
  });
});

describe('bursar ledger verify', () => {
  const verify = (...options: string[]) => fixture.bursar('ledger', 'verify', ...options);
  const findCapId = async () => {
    const [cap] = await fixture.query<{ id: number }>(
      `select a.id from accounts a join projects p on p.id = a.project_id
       where p.name = ? and a.holder = ? and a.resource = 'time'`,
      defaultProject.project,
      user,
    );
    return cap?.id ?? Number.NaN;
  };

  test('succeeds on a ledger that balances, as text and as JSON', async () => {
    const { code, stdout, stderr } = await verify();
    assert.deepEqual([code, stderr], [0, '']);
    const proof = await assertLedgerBalances(fixture.server);
    assert.equal(stdout, `The ledger balances: ${proof.accounts} accounts, ${proof.entries} entries.\n`);
    assert.deepEqual(parseOutput<LedgerVerification>(await verify('--json')), proof);
  });

  test('fails with 1 and names the account after its totals were changed', async () => {
    const id = await findCapId();
    await fixture.tamper('update accounts set granted = granted + 1000 where id = ?', id);
    try {
      const { code, stdout } = await verify();
      assert.equal(code, 1);
      assert.match(stdout, new RegExp(`^The ledger does not balance:\\n {2}account ${id}: `));
      const { balanced, problems } = await getLedgerVerification(fixture.admin);
      assert.equal(balanced, false);
      assert.equal(stdout, `The ledger does not balance:\n${problems.map((problem) => `  ${problem}\n`).join('')}`);
    } finally {
      await fixture.tamper('update accounts set granted = granted - 1000 where id = ?', id);
    }
    await assertLedgerBalances(fixture.server);
  });

  test('the admin endpoint finds a change of any total, and balances again after it is undone', async () => {
    const id = await findCapId();
    for (const column of ['granted', 'held', 'posted', 'overrun']) {
      await fixture.tamper(`update accounts set ${column} = ${column} + 1 where id = ?`, id);
      const { balanced, problems } = await verifyLedgerOf(fixture.server);
      await fixture.tamper(`update accounts set ${column} = ${column} - 1 where id = ?`, id);
      assert.equal(balanced, false, column);
      assert.match(problems[0] ?? '', new RegExp(`^account ${id}: `), column);
    }
    await assertLedgerBalances(fixture.server);
  });

  test('finds a job whose state contradicts its hold', async () => {
    // On a system that does not exist: otherwise a worker could end the job again meanwhile.
    await fixture.tamper("update jobs set state = 'running', hpc = '' where id = ?", job.id);
    const { balanced, problems } = await verifyLedgerOf(fixture.server);
    await fixture.tamper("update jobs set state = 'ended', hpc = ? where id = ?", defaultProject.hpc, job.id);
    assert.equal(balanced, false);
    assert.ok(
      problems.some((problem) => problem.includes(`job ${job.id}`)),
      String(problems),
    );
    await assertLedgerBalances(fixture.server);
  });

  test('finds an inserted entry, the only tampering that the database allows', async () => {
    const id = await findCapId();
    await fixture.tamper(
      `insert into entries (account_id, kind, granted, held, posted, overrun, available_after, actor, reason, at)
       values (?, 'top_up', 5, 0, 0, 0, 5, 'nobody', 'a gift', 1)`,
      id,
    );
    const { code, stdout } = await verify();
    assert.equal(code, 1);
    assert.match(stdout, new RegExp(`account ${id}: its balance is not the sum of its entries`));
    assert.match(
      stdout,
      new RegExp(`account ${id}: the available amount of entry \\d+ does not follow from the entry before it`),
    );
  });
});

test('grants that exceed exact integers are rejected, and the ledger can still be verified', async () => {
  const amount = 1e15;
  let granted = 100;
  for (let i = 0; i < 10; i++) {
    const body = { kind: 'top_up', resource: 'space', amount, reason: 'the maximum of one request' };
    const response = await postAsAdmin(
      fixture.admin,
      `/admin/grants/${defaultProjectPath}/members/${otherUser}/`,
      body,
    );
    if (response.status === 201) {
      granted += amount;
      assert.equal(response.body.find((account) => account.user === otherUser)?.granted, granted);
    } else assert.ok(response.status === 400 || response.status === 409, response.text);
  }
  assert.equal((await (await fixture.uncheckedUser(adminId)).get('/admin/ledger/verification/')).status, 200);
});
