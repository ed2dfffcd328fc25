import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Caller, Job, Quota } from '../support/api.ts';
import { adminId, type Bench, home, openBench, place } from '../support/bench.ts';
import type { CommandOutcome } from '../support/command-line.ts';
import {
  type Account,
  act,
  assertBalanced,
  assertExplained,
  movementsOf,
  type Proof,
  proofOf,
  ranJob,
  statementOf,
} from '../support/ledger.ts';

// bursar grant | transfer | refund | ledger verify, beside a server that is running on the same books.

const granted = 50_000;
const user = '302601';
const mate = '302602';
const because = ['--reason', 'because of a test'];
let bench: Bench;
let me: Caller;
let job: Job;
let charged: number;

before(async () => {
  bench = await openBench({ timeSeconds: granted, spaceKb: 100 });
  me = await bench.user(user);
  for (const id of [mate, '302603']) await bench.user(id);
  job = await ranJob(me, { command: 'true', core_number: 20, runtime: 0.1 });
  charged = (await movementsOf(me, job)).at(-1)?.used ?? Number.NaN;
});
after(() => bench.dispose());

const quotaOf = async (id: string): Promise<Quota> => (await bench.user(id)).quota(place.hpc, place.project);

/** What a command that succeeded has printed: JSON, and nothing else anywhere. */
function printed<T = Account[]>({ code, stdout, stderr }: CommandOutcome): T {
  assert.deepEqual([code, stderr], [0, ''], stdout);
  return JSON.parse(stdout) as T;
}

function assertRefused({ code, stdout, stderr }: CommandOutcome, exitCode: number, says: RegExp): void {
  assert.equal(code, exitCode, stderr);
  assert.equal(stdout, '');
  assert.match(stderr, says);
  assert.doesNotMatch(stderr, /\n\s+at .*:\d+/, 'a stack trace');
}

describe('bursar grant', () => {
  test("grows a member's quota at once, and prints the accounts", async () => {
    const before = (await quotaOf(user)).time_left;
    const [pool, cap] = printed(await bench.bursar('grant', home, '--user', user, '--time', '500', ...because));
    assert.deepEqual([pool?.user, cap?.user, cap?.resource, cap?.unit], [null, user, 'time', 'seconds']);
    assert.equal(cap?.available, before + 500);
    assert.equal((await quotaOf(user)).time_left, before + 500);
    const last = (await statementOf(me)).time.movements.at(-1);
    assert.deepEqual([last?.kind, last?.change, last?.reason], ['top_up', 500, 'because of a test']);
  });

  test('shrinks it, of space too, in KB', async () => {
    const [, cap] = printed(
      await bench.bursar('grant', home, '--user', user, '--space', '30', '--withdraw', ...because),
    );
    assert.deepEqual([cap?.unit, cap?.granted], ['KB', 70]);
    assert.equal((await statementOf(me)).space.closing_balance, (await quotaOf(user)).space_left);
  });

  test('grows the reserve of the project, out of which a member gets some', async () => {
    const before = (await quotaOf(mate)).time_left;
    const [pool] = printed(await bench.bursar('grant', home, '--time', '40', ...because));
    assert.equal(pool?.user, null);
    const [same] = printed(
      await bench.bursar('grant', home, '--user', mate, '--time', '40', '--from-pool', ...because),
    );
    assert.equal(same?.granted, pool?.granted);
    assert.equal((await quotaOf(mate)).time_left, before + 40);
    const more = await bench.bursar('grant', home, '--user', mate, '--time', '1', '--from-pool', ...because);
    assertRefused(more, 1, /promised to nobody: 0/);
  });

  test('with --key is done once, and repeated with another amount it is refused', async () => {
    const before = (await quotaOf(user)).time_left;
    const command = ['grant', home, '--user', user, ...because, '--key', 'ticket-4711'];
    const first = printed(await bench.bursar(...command, '--time', '8'));
    assert.deepEqual(printed(await bench.bursar(...command, '--time', '8')), first);
    assert.equal((await quotaOf(user)).time_left, before + 8);
    assertRefused(await bench.bursar(...command, '--time', '9'), 1, /Idempotency-Key|key/);
    assert.equal((await quotaOf(user)).time_left, before + 8);
  });

  test('that would take more than there is fails with 1, and takes nothing', async () => {
    const before = (await quotaOf(user)).time_left;
    const command = ['grant', home, '--user', user, '--time', '99999999', '--withdraw', ...because];
    assertRefused(await bench.bursar(...command), 1, new RegExp(`${before}\\.`));
    assert.equal((await quotaOf(user)).time_left, before);
  });
});

describe('what is wrong with a command is told with an exit code of its own', () => {
  const cases: [what: string, exitCode: number, says: RegExp, args: string[]][] = [
    ['no reason', 2, /--reason/, ['grant', home, '--time', '1']],
    ['no amount', 2, /--time.*--space/, ['grant', home, ...because]],
    ['no project', 2, /hpc_one/, ['grant', 'hpc_one', '--time', '1', ...because]],
    ['an unknown project', 4, /project/, ['grant', 'hpc_one/nowhere', '--time', '1', ...because]],
    ['an unknown member', 4, /999999/, ['grant', home, '--user', '999999', '--time', '1', ...because]],
    ['nobody to transfer to', 2, /--to/, ['transfer', home, '--from', user, '--time', '1', ...because]],
    ['an unknown job', 4, /NO-SUCH/, ['refund', home, '--job', 'NO-SUCH', '--time', '1', ...because]],
  ];
  for (const [what, exitCode, says, args] of cases) {
    test(`${what}: ${exitCode}`, async () => {
      assertRefused(await bench.bursar(...args), exitCode, says);
    });
  }

  test('a reason that says nothing is refused here as it is over HTTP', async () => {
    const command = ['grant', home, '--user', '302603', '--time', '1', '--reason'];
    assertRefused(await bench.bursar(...command, ''), 2, /reason/);
  });
});

describe('bursar transfer', () => {
  test('moves a grant from one member to another, and fails with 1 when there is not so much', async () => {
    const [from, to] = [(await quotaOf(user)).time_left, (await quotaOf(mate)).time_left];
    const command = ['transfer', home, '--from', user, '--to', mate, ...because];
    const accounts = printed(await bench.bursar(...command, '--time', '123'));
    assert.deepEqual(
      accounts.map((account) => account.user),
      [user, mate],
    );
    assert.deepEqual([(await quotaOf(user)).time_left, (await quotaOf(mate)).time_left], [from - 123, to + 123]);
    assertRefused(await bench.bursar(...command, '--time', '99999999'), 1, new RegExp(user));
  });
});

describe('bursar refund', () => {
  test('gives charged time back, in steps, once for each key, and never more than was charged', async () => {
    const before = (await quotaOf(user)).time_left;
    const command = ['refund', home, '--job', job.job_id, ...because];
    printed(await bench.bursar(...command, '--time', '5', '--key', 'refund-1'));
    printed(await bench.bursar(...command, '--time', '5', '--key', 'refund-1'));
    assert.equal((await quotaOf(user)).time_left, before + 5);
    assertRefused(await bench.bursar(...command, '--time', String(charged - 4)), 1, new RegExp(`: ${charged - 5}\\.`));
    printed(await bench.bursar(...command, '--time', String(charged - 5)));
    assert.equal((await quotaOf(user)).time_left, before + charged);
    await assertExplained(me);
  });
});

describe('bursar ledger verify', () => {
  const verify = (...options: string[]) => bench.bursar('ledger', 'verify', ...options);
  const capOf = async () => {
    const [cap] = await bench.rows<{ id: number }>(
      `select a.id from accounts a join projects p on p.id = a.project_id
       where p.name = ? and a.holder = ? and a.resource = 'time'`,
      place.project,
      user,
    );
    return cap?.id ?? Number.NaN;
  };

  test('succeeds on books that balance, in words and as JSON', async () => {
    const { code, stdout, stderr } = await verify();
    assert.deepEqual([code, stderr], [0, '']);
    const proof = await assertBalanced(bench.admin);
    assert.equal(stdout, `The ledger balances: ${proof.accounts} accounts, ${proof.entries} entries.\n`);
    assert.deepEqual(printed<Proof>(await verify('--json')), proof);
  });

  test('fails with 1 and names the account, after somebody has changed its figures', async () => {
    const id = await capOf();
    await bench.tamper('update accounts set granted = granted + 1000 where id = ?', id);
    try {
      const { code, stdout } = await verify();
      assert.equal(code, 1);
      assert.match(stdout, new RegExp(`^The ledger does not balance:\\n {2}account ${id}: `));
      const { balanced, problems } = await proofOf(bench.admin);
      assert.equal(balanced, false);
      assert.equal(stdout, `The ledger does not balance:\n${problems.map((problem) => `  ${problem}\n`).join('')}`);
    } finally {
      await bench.tamper('update accounts set granted = granted - 1000 where id = ?', id);
    }
    await assertBalanced(bench.admin);
  });

  test('by the path for administrators: a change of any of the figures is found, and undone it is forgotten', async () => {
    const id = await capOf();
    for (const column of ['granted', 'held', 'posted', 'overrun']) {
      await bench.tamper(`update accounts set ${column} = ${column} + 1 where id = ?`, id);
      const { balanced, problems } = await proofOf(bench.admin);
      await bench.tamper(`update accounts set ${column} = ${column} - 1 where id = ?`, id);
      assert.equal(balanced, false, column);
      assert.match(problems[0] ?? '', new RegExp(`^account ${id}: `), column);
    }
    await assertBalanced(bench.admin);
  });

  test('finds a job whose state and hold do not fit each other', async () => {
    await bench.tamper("update jobs set state = 'running' where id = ?", job.id);
    const { balanced, problems } = await proofOf(bench.admin);
    await bench.tamper("update jobs set state = 'ended' where id = ?", job.id);
    assert.equal(balanced, false);
    assert.ok(
      problems.some((problem) => problem.includes(`job ${job.id}`)),
      String(problems),
    );
    await assertBalanced(bench.admin);
  });

  test('finds an entry that was slipped in, which is the one thing the database lets happen', async () => {
    const id = await capOf();
    await bench.tamper(
      `insert into entries (account_id, kind, granted, held, posted, overrun, available_after, actor, reason, at)
       values (?, 'top_up', 5, 0, 0, 0, 5, 'nobody', 'a gift', 1)`,
      id,
    );
    const { code, stdout } = await verify();
    assert.equal(code, 1);
    assert.match(stdout, new RegExp(`account ${id}: its figures are not the sum of its entries`));
    assert.match(stdout, new RegExp(`account ${id}: its balance does not follow from entry \\d+`));
  });
});

test('amounts that the books cannot count exactly are refused, and the proof goes on being possible', async () => {
  const each = 1e15;
  let exact = 100;
  for (let i = 0; i < 10; i++) {
    const body = { kind: 'top_up', resource: 'space', amount: each, reason: 'as much as a request may ask for' };
    const answer = await act(bench.admin, `/admin/grants/${home}/${mate}/`, body);
    if (answer.status === 201) {
      exact += each;
      assert.equal(answer.body.find((account) => account.user === mate)?.granted, exact);
    } else assert.ok(answer.status === 400 || answer.status === 409, answer.text);
  }
  assert.equal((await (await bench.plain(adminId)).get('/admin/ledger/proof/')).status, 200);
});
