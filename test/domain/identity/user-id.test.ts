import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isAssignedUserId, isUserId, nextAssignedUserId } from '../../../src/domain/identity/user-id.ts';

test('identifiers that Bursar assigns are longer than a POSIX uid and shorter than an ORCID', () => {
  for (const id of ['90000000001', '95000000000', '99999999999']) assert.ok(isAssignedUserId(id), id);
  for (const id of ['301330', '4294967295', '90000000000', '9000000000', '900000000010', '0000000218250097'])
    assert.ok(!isAssignedUserId(id), id);
  assert.ok(isUserId('90000000001') && !isUserId('') && !isUserId('ada') && !isUserId('1'.repeat(21)));
});

test('they are assigned in order, until there are no more', () => {
  assert.equal(nextAssignedUserId(undefined), '90000000001');
  assert.equal(nextAssignedUserId('90000000009'), '90000000010');
  assert.throws(() => nextAssignedUserId('99999999999'), /no more/);
});
