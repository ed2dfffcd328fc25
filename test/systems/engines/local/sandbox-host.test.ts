import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { findHiddenPaths, findPrivateFiles, probeBubblewrap } from '../../../../src/engines/sandbox/host.ts';
import { localSandbox } from '../../../support/bubblewrap.ts';
import { account, createBubblewrapWithoutFile, needsRoot } from './isolated-harness.ts';

test('findHiddenPaths finds existing files and folders, under all of their names', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'bursar-hidden-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, 'real'));
  await writeFile(join(folder, 'real', 'file'), '');
  await symlink(join(folder, 'real'), join(folder, 'link'));
  const paths = ['link', 'real/file', 'absent'].map((name) => join(folder, name));
  assert.deepEqual(findHiddenPaths(paths), [
    { path: join(folder, 'real'), kind: 'folder' },
    { path: join(folder, 'real', 'file'), kind: 'file' },
  ]);
  await mkdir(join(folder, 'link', 'data'));
  const inLink = findHiddenPaths([join(folder, 'real/data')], [join(folder, 'link')]);
  assert.deepEqual(
    inLink.map(({ path }) => path),
    [join(folder, 'real/data'), join(folder, 'link/data')],
  );
});

test('findPrivateFiles finds what is not for everybody in /etc, even for an ordinary account', () => {
  for (const files of [findPrivateFiles(undefined), findPrivateFiles(account)]) {
    assert.ok(files.includes('/etc/shadow'));
    assert.ok(!files.includes('/etc/passwd') && !files.includes('/etc'));
  }
});

test('probeBubblewrap says why jobs cannot be isolated', async (t) => {
  const settings = { readOnly: [], hidden: [], network: true };
  assert.deepEqual(probeBubblewrap('/nowhere', settings), {
    reason: 'bubblewrap is not installed (the program bwrap is not in PATH)',
  });
  const folder = await mkdtemp(join(tmpdir(), 'bursar-bwrap-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const message = 'bwrap: setting up uid map: Permission denied';
  await writeFile(join(folder, 'bwrap'), `#!/bin/sh\necho '${message}' >&2\nexit 1\n`, { mode: 0o755 });
  const reason = `bubblewrap does not work on this host (${message})`;
  assert.deepEqual(probeBubblewrap(folder, settings), { reason });
});

test('probeBubblewrap tries again if a private file vanishes before it can be hidden', needsRoot, async (t) => {
  const program = await createBubblewrapWithoutFile(t);
  assert.deepEqual(probeBubblewrap(dirname(program), { readOnly: [], hidden: [], network: true }), {
    ...{ program, canLimitMemory: true, canDisableUserNamespaces: false },
  });
});

test('probeBubblewrap tries the settings of the system', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'bursar-bwrap-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const { program } = localSandbox();
  // A host where no network namespace can be created, and no status can be reported.
  const refuse = (option: string) => `case " $* " in *" ${option} "*) echo "bwrap: no ${option}" >&2; exit 1 ;; esac`;
  const write = (option: string) =>
    writeFile(join(folder, 'bwrap'), `#!/bin/sh\n${refuse(option)}\nexec ${program} "$@"\n`, { mode: 0o755 });
  const settings = { readOnly: [], hidden: [], network: true };
  const reasonOf = (name: string) => ({ reason: `bubblewrap does not work on this host (bwrap: no ${name})` });
  await write('--unshare-net');
  assert.deepEqual(probeBubblewrap(folder, settings), {
    program: join(folder, 'bwrap'),
    canLimitMemory: true,
    canDisableUserNamespaces: process.getuid?.() !== 0,
  });
  assert.deepEqual(probeBubblewrap(folder, { ...settings, network: false }), reasonOf('--unshare-net'));
  await write('--json-status-fd');
  assert.deepEqual(probeBubblewrap(folder, settings), reasonOf('--json-status-fd'));
  await write('--ro-bind-try /opt');
  assert.deepEqual(probeBubblewrap(folder, { ...settings, readOnly: ['/opt'] }), reasonOf('--ro-bind-try /opt'));
  if (process.getuid?.() !== 0) return;
  await write('setpriv');
  assert.deepEqual(probeBubblewrap(folder, { ...settings, account }), reasonOf('setpriv'));
  assert.ok('program' in probeBubblewrap(process.env.PATH, { ...settings, account }));
});
