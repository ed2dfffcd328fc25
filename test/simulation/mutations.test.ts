import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { mutate } from '../../simulation/check-mutations.ts';
import { mutations } from '../../simulation/mutations.ts';

describe('a mutation applies to the sources as they are', () => {
  for (const mutation of mutations)
    test(mutation.name, () => {
      assert.doesNotThrow(() => mutate(mutation));
    });
});
