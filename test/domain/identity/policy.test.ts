import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allScopes, parseScopes } from '../../../src/domain/identity/policy.ts';

test('scopes are parsed once, but text that only a request can have is not kept', () => {
  const all = [...allScopes].join(' ');
  assert.deepEqual(parseScopes(all), allScopes);
  assert.equal(parseScopes(all), parseScopes(all));
  const repeated = 'jobs:read '.repeat(1000);
  assert.deepEqual([...parseScopes(repeated)], ['jobs:read']);
  assert.notEqual(parseScopes(repeated), parseScopes(repeated));
  assert.deepEqual([...parseScopes('quotas:read unknown jobs:read')], ['jobs:read', 'quotas:read']);
});
