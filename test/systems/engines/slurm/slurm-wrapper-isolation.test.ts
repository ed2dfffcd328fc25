import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import type { EngineJob } from '../../../../src/engines/engine.ts';
import { buildSlurmScript } from '../../../../src/engines/slurm/steps.ts';
import { quoteForBash } from '../../../../src/shell/quote.ts';
import { newLocalJob } from '../../../engines/local/harness.ts';
import { shellLine } from '../../../engines/test-jobs.ts';
import { temporaryFolder } from '../../../files/temporary.ts';
import { slurmIsolation } from '../../../support/bubblewrap.ts';
import { assertTwoNodeStep } from './isolated-jobs.ts';
import { slurmSshHarness } from './slurm-harness.ts';

describe('isolated jobs in special cases', { concurrency: 3 }, () => {
  test('an isolated job can end in order where env cannot restore signals', async (t) => {
    const job = await newLocalJob(
      await temporaryFolder(t),
      shellLine("trap 'echo caught; exit 3' TERM; echo ready; while true; do sleep 0.05; done"),
    );
    const script = buildSlurmScript(job, slurmIsolation());
    const wrapper = script.replaceAll('--default-signal', '--as-before-coreutils-8.31');
    assert.notEqual(wrapper, script);
    const child = spawn('bash', ['-c', wrapper], { cwd: job.workspace.directory, detached: true, stdio: 'pipe' });
    let output = '';
    child.stdout.on('data', (chunk) => {
      // Slurm signals all processes of a job.
      if (output === '') process.kill(-(child.pid ?? 0), 'SIGTERM');
      output += chunk;
    });
    assert.deepEqual(await once(child, 'close'), [3, null]);
    assert.equal(output, 'ready\ncaught\n');
  });

  test('jobs start while private files in /etc come and go', async (t) => {
    const folder = await temporaryFolder(t);
    // In a mount namespace with a copy of /etc: the other tests use the real one.
    const etc = join(folder, 'etc');
    execFileSync('cp', ['-a', '/etc', etc]);
    // As long as useradd keeps its files.
    const change =
      'while :; do install -m 600 /dev/null /etc/new; sleep 0.05; mv /etc/new /etc/old; sleep 0.05; rm /etc/old; done';
    const prepare = `mount --bind ${quoteForBash(etc)} /etc && { { ${change}; } & } && trap 'kill %1' EXIT`;
    for (let i = 0; i < 5; i++) {
      const job = await newLocalJob(join(folder, String(i)), shellLine('echo ran'));
      const wrapper = quoteForBash(buildSlurmScript(job, slurmIsolation()));
      const command = `${prepare}; cd ${quoteForBash(job.workspace.directory)} && bash -c ${wrapper}`;
      const { stdout, stderr } = spawnSync('unshare', ['--mount', 'bash', '-c', command], { encoding: 'utf8' });
      assert.equal(stdout, 'ran\n', stderr);
    }
  });

  test('a private file that disappears while it is looked for leaves nothing in the output of the job', async (t) => {
    const folder = await temporaryFolder(t);
    const job = await newLocalJob(folder, shellLine('echo ran'));
    const fail = 'touch "$0.called"; echo "find: /etc/new: No such file or directory" >&2; exit 1';
    const find = `#!/bin/bash\n[ -e "$0.called" ] || { ${fail}; }\nexec /usr/bin/find "$@"\n`;
    await writeFile(join(folder, 'find'), find, { mode: 0o755 });
    const { stdout, stderr } = runWrapper(job, folder);
    assert.deepEqual([stdout, existsSync(join(folder, 'find.called'))], ['ran\n', true], stderr);
    assert.doesNotMatch(stderr, /find/);
  });

  test('srun works in isolated jobs of a cluster that is reached by ssh', async () => {
    const harness = await slurmSshHarness({ isolation: slurmIsolation() });
    try {
      await assertTwoNodeStep(harness);
    } finally {
      await harness.close();
    }
  });

  test('an isolated job is started again if bubblewrap failed before its start, and never after it', async (t) => {
    const { status, stdout } = await runWithFailures(t, '[2-5]');
    assert.deepEqual([status, stdout], [1, 'ran\n']);
  });

  test('an isolated job that bubblewrap cannot start did not fail by itself', async (t) => {
    const { signal, status, stdout, stderr } = await runWithFailures(t, '[2-9]|[1-9]?');
    assert.equal(stdout, '');
    assert.match(stderr, /the job was not started: bubblewrap failed on/);
    assert.ok(signal !== null || status === null || status > 128, `${signal} ${status}`);
  });

  test('a wrapper gives up before Slurm charges for its attempts, however long each of them takes', async (t) => {
    // As if that time were over.
    const change = (script: string) => script.replace(/^max_retry_seconds=\d+$/m, 'max_retry_seconds=0');
    const { stderr, attempts } = await runWithFailures(t, '[2-9]|[1-9]?', change);
    assert.match(stderr, /the job was not started: bubblewrap failed on/);
    // The trial and the start.
    assert.equal(attempts, 2);
  });
});

/** Runs the wrapper with a `bwrap` that fails at the given attempts. The first attempt is the trial. */
async function runWithFailures(t: TestContext, failing: string, change = (script: string) => script) {
  const folder = await temporaryFolder(t);
  const job = await newLocalJob(folder, shellLine('echo ran; exit 1'));
  const count = join(folder, 'count');
  const bwrap = join(folder, 'bwrap');
  const program = `#!/bin/bash\nprintf . >> ${count}\ncase $(wc -c < ${count}) in ${failing}) exit 1 ;; esac\nexec /usr/bin/bwrap "$@"\n`;
  await writeFile(bwrap, program, { mode: 0o755 });
  return { ...runWrapper(job, folder, change), attempts: readFileSync(count, 'utf8').length };
}

/** Runs the wrapper of a job on this host, with the programs of a folder first in PATH. */
function runWrapper(job: EngineJob, programs: string, change = (script: string) => script) {
  return spawnSync('bash', ['-c', change(buildSlurmScript(job, slurmIsolation()))], {
    cwd: job.workspace.directory,
    env: { PATH: `${programs}:${process.env.PATH}` },
    encoding: 'utf8',
  });
}
