import assert from 'node:assert/strict';
import { readdir, readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { BursarError } from '../../src/domain/errors.ts';
import type { EngineHarness, EngineTest, JobOverrides } from './engine-harness.ts';
import { neverAborted, waitUntilFinished } from './observing.ts';
import { argv, countRuns, script, shellLine, writeInput } from './test-jobs.ts';

/** The part of the engine contract about how jobs end. */
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
  /** Returns the reason. An engine may refuse the submission, or report the job as rejected; the job must not run. */
  const rejectionReason = async (
    harness: EngineHarness,
    overrides: JobOverrides,
    files: Record<string, string> = {},
  ) => {
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

  check('reports success', async (harness) => {
    const { end } = await run(harness, shellLine('true'));
    assert.deepEqual([end.outcome, end.exitCode, end.reason], ['succeeded', 0, 'exit code 0']);
  });

  check('reports the exit code', async (harness) => {
    const { end } = await run(harness, shellLine('exit 3'));
    assert.deepEqual([end.outcome, end.exitCode, end.reason], ['failed', 3, 'exit code 3']);
  });

  check('reports a command that does not exist', async (harness) => {
    const { end, job } = await run(harness, shellLine('no-such-command --help'));
    assert.deepEqual([end.outcome, end.exitCode], ['failed', 127]);
    assert.match(end.reason, /command not found/);
    assert.match(await readFile(job.workspace.stderr, 'utf8'), /no-such-command/);
  });

  check('reports the signal that killed the job', async (harness) => {
    const { end } = await run(harness, shellLine('ulimit -c 0; kill -SEGV $$'));
    assert.deepEqual([end.outcome, end.exitCode], ['failed', null]);
    assert.match(end.reason, /SIGSEGV/);
  });

  check('ends a job at its time limit', async (harness) => {
    const { engine, newJob, minRuntimeSeconds, reachTimeLimit } = harness;
    const job = await newJob({ ...shellLine('sleep 600'), runtimeSeconds: minRuntimeSeconds });
    const ref = await engine.submit(job, neverAborted);
    await reachTimeLimit?.(job.jobId, ref);
    const end = await waitUntilFinished(engine, job.jobId);
    assert.equal(end.outcome, 'timed_out');
    assert.match(end.reason, /limit/);
    if (reachTimeLimit === undefined) assert.ok(end.elapsedSeconds >= minRuntimeSeconds);
  });

  check('stores stdout and stderr in separate files', async (harness) => {
    const byName = harness.outputGoesDirectlyToFiles ? '>> /dev/stderr' : '> /dev/stderr';
    const { job } = await run(harness, shellLine(`echo to out; echo to err >&2; echo by name ${byName}`));
    assert.equal(await readFile(job.workspace.stdout, 'utf8'), 'to out\n');
    assert.equal(await readFile(job.workspace.stderr, 'utf8'), 'to err\nby name\n');
  });

  check('runs the job in its workspace, or in a folder of it', async (harness) => {
    const { job } = await run(harness, argv('cp', 'input', 'output'), { input: 'data' });
    assert.equal(await readFile(join(job.workspace.directory, 'output'), 'utf8'), 'data');

    const startFolder = "it's my project";
    const files = {
      [`${startFolder}/run.sh`]: '#!/bin/sh\npwd; cat input > output\n',
      [`${startFolder}/input`]: 'data',
    };
    const { job: inside } = await run(harness, { ...script('run.sh'), startFolder }, files);
    const { directory, stdout } = inside.workspace;
    assert.equal(await readFile(stdout, 'utf8'), `${await realpath(join(directory, startFolder))}\n`);
    assert.equal(await readFile(join(directory, startFolder, 'output'), 'utf8'), 'data');
    assert.deepEqual(await readdir(directory), [startFolder], 'records and temporary files are elsewhere');
  });

  check('passes arguments unchanged', async (harness) => {
    const words = ['two words', '', '$HOME', "it's", '"quoted"', '*', 'ü', 'a\nb'];
    const { job } = await run(harness, script('show.sh', ...words), { 'show.sh': `#!/bin/sh\nprintf '<%s>' "$@"\n` });
    const expected = words.map((word) => `<${word}>`).join('');
    assert.equal(await readFile(job.workspace.stdout, 'utf8'), expected);
    const { job: argvJob } = await run(harness, argv('printf', '<%s>', ...words));
    assert.equal(await readFile(argvJob.workspace.stdout, 'utf8'), expected);
  });

  check('rejects a script that does not exist', async (harness) => {
    assert.match(await rejectionReason(harness, script('run.sh')), /run\.sh/);
  });

  check('rejects a script without an interpreter line', async (harness) => {
    assert.match(await rejectionReason(harness, script('run.sh'), { 'run.sh': 'echo ran >> runs\n' }), /run\.sh.*#!/);
  });
}
