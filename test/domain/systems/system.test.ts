import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { formatJobId, publicSystemName } from '../../../src/domain/systems/system.ts';
import { isJobId } from '../../../src/files/safe-paths.ts';
import { batchSystem, toolSystem } from '../example-systems.ts';

describe('formatJobId', () => {
  const uuid = '0f8fad5b-d9cb-469f-a165-70867728950e';

  test('returns an upper-case UUID on a batch system', () => {
    assert.equal(formatJobId(batchSystem, null, uuid), '0F8FAD5B-D9CB-469F-A165-70867728950E');
    assert.equal(formatJobId(batchSystem, 'BASH', uuid), '0F8FAD5B-D9CB-469F-A165-70867728950E');
  });

  test('joins prefix, tool and hexadecimal digits on a tool system', () => {
    assert.equal(formatJobId(toolSystem(), 'BASH', uuid), 'BURSAR-JOB-BASH-0F8FAD5BD9CB469FA16570867728950E');
    const other = { ...toolSystem(), jobIdPrefix: 'X' };
    assert.equal(formatJobId(other, 'A-B', uuid), 'X-A-B-0F8FAD5BD9CB469FA16570867728950E');
  });

  test('matches the style of the system for every UUID', () => {
    fc.assert(
      fc.property(fc.uuid(), (anyUuid) => {
        assert.match(formatJobId(batchSystem, null, anyUuid), /^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$/);
        assert.match(formatJobId(toolSystem(), 'PYTHON3', anyUuid), /^BURSAR-JOB-PYTHON3-[0-9A-F]{32}$/);
      }),
    );
  });

  test('returns a different identifier for every UUID', () => {
    const ids = Array.from({ length: 1000 }, () => formatJobId(toolSystem(), 'BASH', randomUUID()));
    assert.equal(new Set(ids).size, ids.length);
  });

  test('is a valid file name for every prefix and tool that the configuration allows', () => {
    // The patterns of src/config/system-schema.ts, for `jobIdPrefix` and for the names of tools.
    const name = fc.stringMatching(/^[A-Z][A-Z0-9_-]{0,31}$/);
    fc.assert(
      fc.property(name, name, (prefix, tool) => {
        const id = formatJobId({ ...toolSystem(), jobIdPrefix: prefix }, tool, uuid);
        assert.ok(isJobId(id), `${id} is not a valid job identifier`);
      }),
    );
  });
});

test('publicSystemName converts to upper case', () => {
  assert.deepEqual(['hpc_one', 'hpc_two', 'x9'].map(publicSystemName), ['HPC_ONE', 'HPC_TWO', 'X9']);
});
