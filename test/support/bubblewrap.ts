import assert from 'node:assert/strict';
import { existsSync, readdirSync, realpathSync, symlinkSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import type { BatchIsolation } from '../../src/engines/batch/backend.ts';
import type { LocalSandbox } from '../../src/engines/local/sandbox.ts';
import { probeBubblewrap } from '../../src/engines/sandbox/host.ts';

/** Some jobs of tests run Node. */
const nodeFolder = dirname(realpathSync(process.execPath));

/** The real bubblewrap. The test run installs it before a test that imports this module. */
export function localSandbox(overrides: Partial<LocalSandbox> = {}): LocalSandbox {
  const bubblewrap = probeBubblewrap(process.env.PATH, { readOnly: [], hidden: [], network: false });
  assert.ok('program' in bubblewrap, JSON.stringify(bubblewrap));
  return { ...bubblewrap, readOnly: [nodeFolder], hidden: [homedir()], network: true, ...overrides };
}

/** Creates a folder with all programs of PATH but bubblewrap, as on a host where it is not installed. */
export function hideBubblewrap(folder: string): string {
  for (const source of (process.env.PATH ?? '').split(delimiter).filter((path) => path !== '' && existsSync(path))) {
    for (const name of readdirSync(source)) {
      if (name !== 'bwrap' && !existsSync(join(folder, name))) symlinkSync(join(source, name), join(folder, name));
    }
  }
  return folder;
}

/** Isolates the jobs of a Slurm cluster. */
export function slurmIsolation(overrides: Partial<BatchIsolation> = {}): BatchIsolation {
  return { required: true, readOnly: [], hidden: [], network: true, scheduler: false, ...overrides };
}
