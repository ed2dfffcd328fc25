import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { toHpcSystems } from '../../../src/config/hpc-systems.ts';
import { commandLineActor } from '../../../src/services/identity/actor.ts';
import { enrolUser, storeProject } from '../../../src/services/identity/enrolment.ts';
import { findOrCreateUser } from '../../../src/services/identity/identity-user.ts';
import type { Identity } from '../../../src/services/identity/oidc/claims.ts';
import { setMember } from '../../../src/services/identity/projects.ts';
import {
  disableUser,
  enableUser,
  linkIdentity,
  readUser,
  setUserRole,
  unlinkIdentity,
} from '../../../src/services/identity/users.ts';
import type { Db } from '../../../src/store/database/handle.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { listAudit } from '../../../src/store/identity/audit.ts';
import { listMemberships, type MemberStatus } from '../../../src/store/identity/members.ts';
import { findUser } from '../../../src/store/identity/users.ts';
import { verifyLedger } from '../../../src/store/ledger/verify-ledger.ts';
import { recordStatements } from '../../support/statements.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';

const issuer = 'https://idp.test';
const other = 'https://other.test';
const now = () => 5;
const origin = { address: '192.0.2.1', requestId: 'request' };

const identity = (changes: Partial<Identity> = {}): Identity => ({
  issuer,
  subject: 'ada',
  issuedAt: 1000,
  userId: null,
  name: null,
  mail: null,
  role: null,
  memberships: [],
  syncMemberships: false,
  ...changes,
});

let database: TestDatabase;
let db: Db;
beforeEach(async () => {
  database = await openTestDatabase([], 1000, 500);
  db = database.db;
});
afterEach(() => database.close());

/** The users whose open streams are checked again. */
const published: string[] = [];
const find = (changes?: Partial<Identity>, handle = db) =>
  findOrCreateUser(
    { db: handle, now, accessTopic: { publish: (userId) => published.push(userId) } },
    identity(changes),
    origin,
  );

function createUsers(options: { roles?: boolean } = {}) {
  const provider = (url: string) => ({
    issuer: url,
    audience: 'bursar',
    roles: options.roles ? { a: 'auditor' } : undefined,
  });
  const users = {
    db,
    now,
    accessTopic: { publish: () => undefined },
    providers: [issuer, other].map(provider) as never,
  };
  const change = (userId: string) => ({
    actor: commandLineActor('root'),
    userId,
    reason: 'the same person',
    idempotency: null,
  });
  return { users, change };
}

/** The acts of the audit trail, from old to new. */
const acts = async () =>
  (await listAudit(db, {}, 100)).reverse().map(({ action, actor, subject }) => `${actor.userId} ${action} ${subject}`);

describe('the user of an identity', () => {
  test('gets a number from a range that nothing else can name', async () => {
    await enrolUser(db, '99999999999999', 'user', 1);
    await enrolUser(db, '950', 'user', 1);
    assert.deepEqual(await find(), { userId: '90000000001', role: 'user' });
    assert.equal((await find({ subject: 'grace' })).userId, '90000000002');
    assert.equal((await find()).userId, '90000000001');
    await assert.rejects(find({ subject: 'eve', userId: '90000000001' }), { code: 'token_invalid' });
    await assert.rejects(find({ subject: 'eve', userId: '90000000003' }), { code: 'token_invalid' });
    await assert.rejects(enrolUser(db, '90000000003', 'user', 1), { code: 'invalid_argument', message: /assigns/ });
    // An operator can still give a token to a user that exists.
    await enrolUser(db, '90000000001', 'user', 1);
  });

  test('is never one that exists, until an operator links them', async () => {
    await enrolUser(db, '301330', 'user', 1);
    const conflict = {
      code: 'identity_conflict',
      message: /bursar user link --user 301330 --issuer https:.*--subject ada /,
    };
    await assert.rejects(find({ userId: '301330' }), conflict);
    assert.equal((await find({ userId: '301331' })).userId, '301331');
    await assert.rejects(find({ userId: '301331', issuer: other }), { code: 'identity_conflict' });
    await assert.rejects(find({ userId: '301331', subject: 'eve' }), { code: 'identity_conflict' });
    await assert.rejects(find({ userId: '301330', subject: 'x; rm' }), { message: /--subject <subject> / });

    const { users, change } = createUsers();
    await linkIdentity(users, change('301331'), { issuer: other, subject: 'ada' });
    assert.equal((await find({ userId: '301331', issuer: other })).userId, '301331');
    assert.deepEqual(
      (await readUser(users, '301331')).identities.map((each) => [each.issuer, each.subject]),
      [
        [issuer, 'ada'],
        [other, 'ada'],
      ],
    );
    await assert.rejects(linkIdentity(users, change('301330'), { issuer: other, subject: 'ada' }), {
      code: 'conflict',
    });
    await assert.rejects(linkIdentity(users, change('301330'), { issuer: 'https://x', subject: 'a' }), {
      code: 'invalid_argument',
    });
    await unlinkIdentity(users, change('301331'), { issuer: other, subject: 'ada' });
    await assert.rejects(unlinkIdentity(users, change('301331'), { issuer: other, subject: 'ada' }), {
      code: 'not_found',
    });
    await assert.rejects(find({ userId: '301331', issuer: other }), { code: 'identity_conflict' });
    assert.deepEqual(await acts(), ['bursar user.create 301331', 'root user.link 301331', 'root user.unlink 301331']);
  });

  test('is one for each identity, however many first requests there are at once', async () => {
    const requests = [
      ...Array.from({ length: 6 }, () => find({ userId: '301330' })),
      ...Array.from({ length: 6 }, () => find({ userId: '301330', issuer: other })),
    ];
    const results = await Promise.allSettled(requests);
    const [first, second] = [results.slice(0, 6), results.slice(6)].map((group) =>
      group.filter(({ status }) => status === 'fulfilled'),
    );
    assert.deepEqual([first?.length, second?.length].sort(), [0, 6]);
    for (const result of results)
      if (result.status === 'rejected') assert.equal(result.reason.code, 'identity_conflict');
    assert.deepEqual((await verifyLedger(db)).problems, []);
  });

  test('is refused while disabled', async () => {
    const { userId } = await find();
    const { users, change } = createUsers();
    await disableUser(users, change(userId));
    await assert.rejects(find({ role: 'administrator' }), { code: 'user_disabled' });
    assert.equal((await findUser(db, userId))?.role, 'user');
    await enableUser(users, change(userId));
    assert.equal((await find()).userId, userId);
  });
});

describe('the claims of an identity', () => {
  test('cost one query and no write if they say nothing new', async () => {
    const claims = { name: 'Ada', mail: 'ada@example.org', role: 'auditor' as const };
    const { userId } = await find(claims);
    const recorded = recordStatements(db);
    assert.deepEqual(await find(claims, recorded.db), { userId, role: 'auditor' });
    // An access token often says less than an ID token.
    await find({ role: 'auditor' }, recorded.db);
    assert.equal(recorded.statements.length, 2, recorded.statements.join('\n'));
    await find({ ...claims, name: 'Ada Lovelace' });
    const user = await findUser(db, userId);
    assert.deepEqual([user?.name, user?.mail], ['Ada Lovelace', 'ada@example.org']);
  });

  test('decide about the role, in both directions, where the provider has roles', async () => {
    const { userId } = await find({ role: 'administrator' });
    assert.equal((await findUser(db, userId))?.role, 'administrator');
    published.length = 0;
    assert.equal((await find({ role: 'user' })).role, 'user');
    assert.deepEqual(published, [userId]);
    assert.equal((await findUser(db, userId))?.role, 'user');
    const [last] = await listAudit(db, {}, 1);
    const { actor, action, subject, details } = last ?? {};
    assert.deepEqual(
      [actor, action, subject],
      [{ ...origin, userId: 'bursar', tokenId: null, sessionId: null }, 'user.role', userId],
    );
    assert.deepEqual(details, { role: 'user', issuer });

    const { users, change } = createUsers({ roles: true });
    await assert.rejects(setUserRole(users, change(userId), 'operator'), {
      code: 'conflict',
      message: /groups at https/,
    });
    await linkIdentity(users, change(userId), { issuer: other, subject: 'ada' });
    assert.equal((await find({ issuer: other, role: 'operator' })).role, 'operator');
    assert.equal((await find({ role: 'auditor' })).role, 'operator');
    assert.equal((await find({ issuer: other, role: 'user' })).role, 'auditor');
  });

  test('of an older token do not undo those of a newer one', async () => {
    const { userId } = await find({ role: 'administrator', name: 'Ada' });
    await find({ role: 'user', name: 'Ada Lovelace', issuedAt: 2000 });
    const recorded = recordStatements(db);
    const older = { role: 'administrator' as const, name: 'Ada', memberships: [], syncMemberships: true };
    assert.deepEqual(await find(older, recorded.db), { userId, role: 'user' });
    assert.equal(recorded.statements.length, 1);
    const roles = ['user', 'auditor', 'operator'] as const;
    await Promise.all(roles.map((role, index) => find({ role, issuedAt: 3000 + index })));
    const user = await findUser(db, userId);
    assert.deepEqual([user?.role, user?.name], ['operator', 'Ada Lovelace']);
  });

  test('leave the role to administrators where the provider has none', async () => {
    const { userId } = await find();
    const { users, change } = createUsers();
    await setUserRole(users, change(userId), 'operator');
    assert.equal((await find()).role, 'operator');
    assert.equal((await find({ name: 'Ada' })).role, 'operator');
  });
});

describe('the groups of an identity', () => {
  const climate = (role: 'member' | 'manager' = 'member') => [{ hpc: 'sys', project: 'climate', role }];
  const grants = { grantTimeSeconds: 100, grantSpaceBytes: 100 };
  const createClimate = () =>
    inTransaction(db, (tx) => storeProject(tx, { hpc: 'sys', name: 'climate', autoJoin: 0, ...grants, createdAt: 1 }));

  async function membership(userId: string): Promise<string | undefined> {
    const member = (await listMemberships(db, userId)).find(({ project }) => project === 'climate');
    return member && `${member.status} ${member.role}`;
  }

  async function setStatus(userId: string, status: MemberStatus): Promise<void> {
    const deps = { db, systems: toHpcSystems(database.config), now: () => 6 };
    const change = { status, reason: 'by the board' };
    const request = { actor: commandLineActor('root'), idempotency: null };
    await setMember(deps, { hpc: 'sys', project: 'climate' }, userId, change, request);
  }

  test('join projects with their grant, and leave them if memberships are synchronised', async () => {
    await createClimate();
    const { userId } = await find({ memberships: climate() });
    assert.equal(await membership(userId), 'active member');
    await find({ memberships: climate('manager') });
    assert.equal(await membership(userId), 'active manager');
    await find({ memberships: [] });
    assert.equal(await membership(userId), 'active manager');
    await find({ memberships: [], syncMemberships: true });
    assert.equal(await membership(userId), 'removed member');
    await find({ memberships: climate(), syncMemberships: true });
    assert.equal(await membership(userId), 'active member');
    const subject = `sys/climate/${userId}`;
    assert.deepEqual(await acts(), [
      `bursar user.create ${userId}`,
      `bursar member.active ${subject}`,
      `bursar member.active ${subject}`,
      `bursar member.removed ${subject}`,
      `bursar member.active ${subject}`,
    ]);
    assert.deepEqual((await verifyLedger(db)).problems, []);
  });

  test('do not undo what an administrator has decided', async () => {
    await createClimate();
    const { userId } = await find();
    for (const status of ['active', 'removed', 'banned'] as const) {
      await setStatus(userId, 'active');
      await setStatus(userId, status);
      await find({ memberships: climate('manager'), syncMemberships: true });
      await find({ memberships: [], syncMemberships: true });
      assert.equal(await membership(userId), `${status} member`);
    }
  });

  test('make managers of a project that everybody joins, and members again', async () => {
    const memberships = [{ hpc: 'sys', project: 'proj', role: 'manager' as const }];
    const { userId } = await find({ memberships, syncMemberships: true });
    const read = async () => (await listMemberships(db, userId)).map(({ status, role }) => `${status} ${role}`);
    assert.deepEqual(await read(), ['active manager']);
    await find({ memberships: [], syncMemberships: true });
    assert.deepEqual(await read(), ['active member']);
  });

  test('join a project as soon as it exists', async () => {
    const { userId } = await find({ memberships: climate() });
    assert.equal(await membership(userId), undefined);
    await createClimate();
    await find({ memberships: climate() });
    assert.equal(await membership(userId), 'active member');
  });
});
