import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';

interface LockedPackage {
  resolved?: string;
  optionalDependencies?: Record<string, string>;
}

const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as {
  packages: Record<string, LockedPackage>;
};

describe('the lock file', () => {
  // npm leaves out native code of other platforms if node_modules existed when the lock file was written.
  test('has the native code of every package for Linux on x64 and on arm64', () => {
    const names = Object.keys(packages);
    const native = Object.values(packages).flatMap(({ optionalDependencies = {} }) =>
      Object.keys(optionalDependencies).filter((name) => /linux-(x64|arm64)(-gnu)?$/.test(name)),
    );
    assert.ok(native.length > 10, `only ${native.length} packages have native code`);
    const missing = native.filter((name) => !names.some((path) => path.endsWith(`node_modules/${name}`)));
    assert.deepEqual(missing, []);
  });

  test('has no address of a registry', () => {
    const addresses = Object.values(packages).filter(({ resolved }) => resolved?.includes('://'));
    assert.deepEqual(addresses, []);
  });
});
