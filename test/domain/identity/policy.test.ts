import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allScopes, parseScopes } from '../../../src/domain/identity/policy.ts';

test('scopes are read in the order of the list, each once; unknown words are left out', () => {
  const all = [...allScopes].join(' ');
  assert.deepEqual(parseScopes(all), allScopes);
  assert.deepEqual([...parseScopes('jobs:read '.repeat(1000))], ['jobs:read']);
  assert.deepEqual([...parseScopes('quotas:read unknown jobs:read')], ['jobs:read', 'quotas:read']);
});
