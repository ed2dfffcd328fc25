import assert from 'node:assert/strict';
import { realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname } from 'node:path';
import type { LocalSandbox } from '../../src/engines/local/sandbox.ts';
import { probeBubblewrap } from '../../src/engines/sandbox/host.ts';

/** Some jobs of tests run Node. */
const nodeFolder = dirname(realpathSync(process.execPath));

/** The real bubblewrap. The test run installs it before a test that imports this module. */
export function localSandbox(overrides: Partial<LocalSandbox> = {}): LocalSandbox {
  const bubblewrap = probeBubblewrap(process.env.PATH);
  assert.ok('program' in bubblewrap, JSON.stringify(bubblewrap));
  return { ...bubblewrap, readOnly: [nodeFolder], hidden: [homedir()], network: true, ...overrides };
}
