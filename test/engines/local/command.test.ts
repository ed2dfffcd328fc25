import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { JobCommand } from '../../../src/domain/jobs/job.ts';
import { jobSearchPath } from '../../../src/engines/local/environment.ts';
import { resolveCommand } from '../../../src/engines/local/supervisor/command.ts';

let root = '';
let workspace = '';
const path = '/usr/bin:/bin';
const canSee = async () => true;
const prepare = (command: JobCommand) => resolveCommand(command, { directory: workspace, path, canSee });
const script = (name: string, ...args: string[]) => prepare({ kind: 'script', script: name, args });

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'bursar-command-'));
  workspace = join(root, 'work');
  await mkdir(join(workspace, 'sub'), { recursive: true });
  const files: Record<string, string> = {
    'work/run.sh': '#!/bin/sh\n',
    'work/sub/options.sh': '#! /bin/sh  -e -u \n',
    'work/windows.sh': '#!/bin/sh\r\n',
    'work/bad-interpreter': '#!/no/such/interpreter\n',
    'work/no-interpreter': '#!\n',
    'work/data': 'data',
    'outside.sh': '#!/bin/sh\n',
  };
  for (const [name, content] of Object.entries(files)) await writeFile(join(root, name), content);
  await symlink('../outside.sh', join(workspace, 'link.sh'));
  await symlink('run.sh', join(workspace, 'inner.sh'));
});
after(() => rm(root, { recursive: true, force: true }));

test('runs a command line with bash, or with sh if there is no bash', async () => {
  const command = { kind: 'line' as const, line: 'echo $HOME' };
  assert.deepEqual(await prepare(command), { program: '/usr/bin/bash', args: ['-c', 'echo $HOME'] });
  assert.deepEqual(await resolveCommand(command, { directory: workspace, path: '/nowhere', canSee }), {
    program: '/bin/sh',
    args: ['-c', 'echo $HOME'],
  });
});

test('runs a script with its interpreter, executable or not', async () => {
  assert.deepEqual(await script('run.sh', 'a b'), { program: '/bin/sh', args: [join(workspace, 'run.sh'), 'a b'] });
  assert.deepEqual(await script('sub/options.sh'), {
    program: '/bin/sh',
    args: ['-e -u', join(workspace, 'sub/options.sh')],
  });
  assert.deepEqual(await script('inner.sh'), { program: '/bin/sh', args: [join(workspace, 'inner.sh')] });
});

test('rejects a script that cannot be run and says what to do', async () => {
  const reasons: [string, RegExp][] = [
    ['missing.sh', /^missing\.sh is not in the zip: add it/],
    ['sub', /^sub is not in the zip/],
    ['../outside.sh', /is outside the job's folder/],
    ['link.sh', /is outside the job's folder/],
    ['/bin/true', /is an absolute path/],
    ['data', /such as #!\/bin\/bash/],
    ['windows.sh', /dos2unix/],
    ['bad-interpreter', /^bad-interpreter cannot be run by \/no\/such\/interpreter: there is no such program/],
    ['no-interpreter', /names no interpreter/],
  ];
  for (const [name, expected] of reasons) {
    const prepared = await script(name);
    assert.match('rejected' in prepared ? prepared.rejected : 'accepted', expected);
  }
});

test('resolves the program of an argv on PATH or in the workspace', async () => {
  const program = (...argv: string[]) => prepare({ kind: 'argv', argv });
  assert.deepEqual(await program('sort', '-n'), { program: '/usr/bin/sort', args: ['-n'] });
  assert.deepEqual(await program('no-such', 'x'), {
    rejected: 'no-such cannot be run: there is no such program on this system',
  });
  assert.deepEqual(await program('./missing'), { rejected: './missing cannot be run: there is no such program' });
  assert.deepEqual(await program(), { rejected: 'the command is empty' });
  assert.deepEqual(await program('./data'), { rejected: './data cannot be run: it is not executable (chmod +x)' });
  await chmod(join(workspace, 'data'), 0o755);
  assert.deepEqual(await program('./data'), { program: join(workspace, 'data'), args: [] });
});

test('rejects a job whose workspace does not exist', async () => {
  assert.deepEqual(
    await resolveCommand({ kind: 'line', line: 'true' }, { directory: join(root, 'nowhere'), path, canSee }),
    {
      rejected: 'its working directory does not exist',
    },
  );
});

test("jobs get Bursar's PATH without node_modules and relative folders", () => {
  assert.equal(jobSearchPath('/x/node_modules/.bin:/opt/bin::.:/bin'), '/opt/bin:/bin');
  assert.equal(jobSearchPath(undefined), '/usr/local/bin:/usr/bin:/bin');
});
