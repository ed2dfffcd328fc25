import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { buildWrapper, wrapperSignals } from '../../../src/engines/batch/wrapper.ts';
import type { EngineJob } from '../../../src/engines/engine.ts';
import { temporaryFolder } from '../../files/temporary.ts';
import { newLocalJob } from '../local/harness.ts';
import { shellLine } from '../test-jobs.ts';

const newJob = async (t: TestContext, overrides: Partial<EngineJob>) =>
  await newLocalJob(await temporaryFolder(t), overrides);

/** Runs the batch script of a job that is not isolated, as a scheduler does that starts jobs in another folder. */
function run(job: EngineJob) {
  const { status, signal, stdout, stderr } = spawnSync('bash', ['-c', buildWrapper(job, null)], {
    cwd: '/',
    encoding: 'utf8',
  });
  // Some signals have no name.
  return { end: status ?? signal, stdout, stderr };
}

const endRecord = ({ workspace }: EngineJob) =>
  readFileSync(`${workspace.directory}.started/end`, 'utf8').split(' ')[0];

test('a wrapper ends as its job ends, and records the end', async (t) => {
  for (const [line, end, code] of [
    ['echo done', 0, '0'],
    ['exit 3', 3, '3'],
    ['kill -KILL $$', 'SIGKILL', '137'],
    ['exit 147', 147, '147'],
    ['no-such-program', 127, '127'],
  ] as const) {
    const job = await newJob(t, shellLine(line));
    assert.equal(run(job).end, end, line);
    assert.equal(endRecord(job), code, line);
  }
});

test('a job starts in its folder, with its variables and words as they are', async (t) => {
  const argv = [
    'bash',
    '-c',
    'printf "%s|" "$PWD" "$HOME" "$BURSAR_JOB_ID" "$@"',
    'bash',
    "it's $HOME",
    'a\nb',
    '*',
    '',
  ];
  const job = { ...(await newJob(t, { command: { kind: 'argv', argv } })), startFolder: 'sub' };
  const { directory } = job.workspace;
  await mkdir(join(directory, 'sub'));
  const expected = [join(directory, 'sub'), directory, job.jobId, "it's $HOME", 'a\nb', '*', ''];
  assert.equal(run(job).stdout, expected.map((word) => `${word}|`).join(''));
});

test('a script need not be executable, and its directives have no effect', async (t) => {
  const job = await newJob(t, { command: { kind: 'script', script: 'run me.sh', args: ['a b'] } });
  await writeFile(join(job.workspace.directory, 'run me.sh'), '#!/bin/bash\n#SBATCH --nodes=9\necho "$1"\n');
  assert.equal(run(job).stdout, 'a b\n');
  assert.doesNotMatch(buildWrapper(job, null), /SBATCH/);
});

test('a second start runs nothing, and ends as the first one', async (t) => {
  const job = await newJob(t, shellLine('echo ran; exit 4'));
  assert.deepEqual([run(job).stdout, run(job).stdout, run(job).end], ['ran\n', '', 4]);
  // The first start left no end record.
  await rm(`${job.workspace.directory}.started/end`);
  assert.equal(wasKilledBy(job, wrapperSignals.duplicate_start), true);
});

test('a wrapper that cannot start its job says so by its signal, and leaves no start record', async (t) => {
  const removed = await newJob(t, shellLine('echo ran'));
  await rm(removed.workspace.directory, { recursive: true });
  assert.match(
    run(removed).stderr,
    /its own folder cannot be entered\nbursar: check that the folder of the workspaces/,
  );
  assert.equal(wasKilledBy(removed, wrapperSignals.not_started), true);
  assert.equal(existsSync(`${removed.workspace.directory}.started`), false);
  const prevented = await newJob(t, shellLine('echo ran'));
  await symlink('never_started', `${prevented.workspace.directory}.started`);
  assert.match(run(prevented).stderr, /it had ended before\nbursar: submit it again/);
  assert.equal(wasKilledBy(prevented, wrapperSignals.not_started), true);
});

/** Node has no names for real-time signals, but a shell reports their numbers. */
function wasKilledBy(job: EngineJob, signal: number): boolean {
  const args = ['-c', 'bash -c "$1"; echo $?', 'bash', buildWrapper(job, null)];
  const { stdout } = spawnSync('bash', args, { cwd: '/', encoding: 'utf8' });
  return stdout === `${128 + signal}\n`;
}

test('a job that ends by itself after SIGTERM does not look as if it had ended well', async (t) => {
  const job = await newJob(t, shellLine("trap 'exit 0' TERM; kill -TERM $PPID $$; sleep 10"));
  assert.equal(run(job).end, 'SIGTERM');
  assert.equal(endRecord(job), '0');
});
