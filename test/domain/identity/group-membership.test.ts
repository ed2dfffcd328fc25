import assert from 'node:assert/strict';
import { test } from 'node:test';
import { joinByGroup, leaveByGroup, type MembershipState } from '../../../src/domain/identity/group-membership.ts';

const issuer = 'https://idp.test';
const other = 'https://other.test';
type Row = [from: string, role: 'member' | 'manager', to: string | undefined];

const parse = (text: string): MembershipState => {
  const [status, role, joinedBy] = text.split(' ');
  return { status, role, joinedBy } as MembershipState;
};
const format = (state: MembershipState | undefined) => state && `${state.status} ${state.role} ${state.joinedBy}`;

test('a group joins a project, but changes no decision of an administrator and no ban', () => {
  const rows: Row[] = [
    ['active member auto_join', 'member', undefined],
    ['active member auto_join', 'manager', `active manager ${issuer}`],
    [`active member ${issuer}`, 'member', undefined],
    [`active member ${issuer}`, 'manager', `active manager ${issuer}`],
    [`active manager ${issuer}`, 'member', `active member ${issuer}`],
    [`removed member ${issuer}`, 'manager', `active manager ${issuer}`],
    [`active manager ${other}`, 'member', undefined],
    [`removed member ${other}`, 'member', `active member ${issuer}`],
    ...['active member', 'removed member', 'banned member'].map(
      (state): Row => [`${state} administrator`, 'manager', undefined],
    ),
    [`banned member ${issuer}`, 'manager', undefined],
  ];
  for (const [from, role, to] of rows)
    assert.equal(format(joinByGroup(parse(from), role, { issuer, canDemote: true })), to, `${from}, ${role}`);
});

test('a manager is demoted only where memberships are synchronised', () => {
  const manager = parse(`active manager ${issuer}`);
  assert.equal(joinByGroup(manager, 'member', { issuer, canDemote: false }), undefined);
});

test('who leaves a group is removed, but stays in a project that everybody joins', () => {
  assert.equal(format(leaveByGroup(parse(`active manager ${issuer}`), false)), `removed member ${issuer}`);
  assert.equal(format(leaveByGroup(parse(`active manager ${issuer}`), true)), 'active member auto_join');
});
