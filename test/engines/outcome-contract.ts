import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { BursarError } from '../../src/domain/errors.ts';
import type { EngineHarness, EngineTest, JobOverrides } from './engine-harness.ts';
import { neverAborted, waitUntilFinished } from './observing.ts';
import { argv, countRuns, script, shellLine, writeInput } from './test-jobs.ts';

/** How jobs end, for any engine: a part of the contract. */
export function outcomes(check: EngineTest): void {
  const run = async (
    { engine, newJob }: EngineHarness,
    overrides: JobOverrides,
    files: Record<string, string> = {},
  ) => {
    const job = await newJob(overrides);
    for (const [name, content] of Object.entries(files)) await writeInput(job, name, content);
    await engine.submit(job, neverAborted);
    return { job, end: await waitUntilFinished(engine, job.jobId) };
  };
  /** An engine may refuse at once, or report the job as rejected: either way the reason is told, and nothing ran. */
  const refusal = async (harness: EngineHarness, overrides: JobOverrides, files: Record<string, string> = {}) => {
    try {
      const { end, job } = await run(harness, overrides, files);
      assert.equal(end.outcome, 'rejected');
      assert.equal(end.elapsedSeconds, 0);
      assert.equal(end.startedAt, null);
      assert.equal(await countRuns(job), 0);
      return end.reason;
    } catch (error) {
      if (error instanceof BursarError && error.code === 'job_refused') return error.message;
      throw error;
    }
  };

  check('success', async (harness) => {
    const { end } = await run(harness, shellLine('true'));
    assert.deepEqual([end.outcome, end.exitCode, end.reason], ['succeeded', 0, 'exit code 0']);
  });

  check('an exit code', async (harness) => {
    const { end } = await run(harness, shellLine('exit 3'));
    assert.deepEqual([end.outcome, end.exitCode, end.reason], ['failed', 3, 'exit code 3']);
  });

  check('a command that does not exist', async (harness) => {
    const { end, job } = await run(harness, shellLine('no-such-command --help'));
    assert.deepEqual([end.outcome, end.exitCode], ['failed', 127]);
    assert.match(end.reason, /command not found/);
    assert.match(await readFile(job.workspace.stderr, 'utf8'), /no-such-command/);
  });

  check('death by a signal', async (harness) => {
    const { end } = await run(harness, shellLine('ulimit -c 0; kill -SEGV $$'));
    assert.deepEqual([end.outcome, end.exitCode], ['failed', null]);
    assert.match(end.reason, /SIGSEGV/);
  });

  check('the time limit', async (harness) => {
    const { end } = await run(harness, { ...shellLine('sleep 600'), runtimeSeconds: harness.minRuntimeSeconds });
    assert.equal(end.outcome, 'timed_out');
    assert.match(end.reason, /limit/);
    assert.ok(end.elapsedSeconds >= harness.minRuntimeSeconds);
  });

  check('output is kept, each stream in its own file', async (harness) => {
    const byName = harness.outputGoesDirectlyToFiles ? '>> /dev/stderr' : '> /dev/stderr';
    const { job } = await run(harness, shellLine(`echo to out; echo to err >&2; echo by name ${byName}`));
    assert.equal(await readFile(job.workspace.stdout, 'utf8'), 'to out\n');
    assert.equal(await readFile(job.workspace.stderr, 'utf8'), 'to err\nby name\n');
  });

  check('it runs in its workspace', async (harness) => {
    const { job } = await run(harness, argv('cp', 'input', 'output'), { input: 'data' });
    assert.equal(await readFile(join(job.workspace.directory, 'output'), 'utf8'), 'data');
  });

  check('arguments arrive as they were given', async (harness) => {
    const words = ['two words', '', '$HOME', "it's", '"quoted"', '*', 'ü', 'a\nb'];
    const { job } = await run(harness, script('show.sh', ...words), { 'show.sh': `#!/bin/sh\nprintf '<%s>' "$@"\n` });
    const expected = words.map((word) => `<${word}>`).join('');
    assert.equal(await readFile(job.workspace.stdout, 'utf8'), expected);
    const { job: other } = await run(harness, argv('printf', '<%s>', ...words));
    assert.equal(await readFile(other.workspace.stdout, 'utf8'), expected);
  });

  check('a script that is not there', async (harness) => {
    assert.match(await refusal(harness, script('run.sh')), /run\.sh/);
  });

  check('a script that does not say what runs it', async (harness) => {
    assert.match(await refusal(harness, script('run.sh'), { 'run.sh': 'echo ran >> runs\n' }), /run\.sh.*#!/);
  });
}
