import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { serveStepsBash } from '../../../../src/engines/slurm/serve-steps.ts';
import { answerSeconds, requestFolder, srunProgram } from '../../../../src/engines/slurm/srun-program.ts';
import { eventually } from '../../../engines/observing.ts';
import { temporaryFolder } from '../../../files/temporary.ts';
import { killGroup } from '../../../support/attempt.ts';
import { localSandbox } from '../../../support/bubblewrap.ts';

/** The same program, which waits for a second only. */
function shortened(program: string): string {
  const changed = program.replaceAll(` ${answerSeconds}`, ' 1');
  assert.notEqual(changed, program);
  return changed;
}

test('requests whose programs were killed before they were served do not occupy the wrapper', async (t) => {
  const steps = await temporaryFolder(t);
  execFileSync('mkfifo', [join(steps, 'requests')]);
  const server = spawn('bash', ['-c', `steps=$1\n${shortened(serveStepsBash)}\nserve_steps`, 'bash', steps], {
    stdio: 'ignore',
    detached: true,
  });
  const exit = once(server, 'exit');
  try {
    const ids = Array.from({ length: 70 }, (_, index) => `1.${index}\n`);
    writeFileSync(join(steps, 'requests'), ids.join(''));
    await eventually('all requests are accepted', async () => readdirSync(steps).includes('1.69'));
    await eventually('all requests are dropped', async () => readdirSync(steps).join() === 'requests');
  } finally {
    killGroup(server.pid);
    await exit;
  }
});

test('srun fails if the wrapper does not answer', async (t) => {
  const folder = await temporaryFolder(t);
  mkdirSync(join(folder, 'bin'));
  writeFileSync(join(folder, 'bin/srun'), shortened(srunProgram), { mode: 0o755 });
  execFileSync('mkfifo', [join(folder, 'requests')]);
  const sandbox = ['--ro-bind', '/', '/', '--dev', '/dev', '--tmpfs', '/run', '--bind', folder, requestFolder];
  const { status, stderr } = spawnSync(localSandbox().program, [...sandbox, `${requestFolder}/bin/srun`, 'true'], {
    encoding: 'utf8',
    timeout: 30_000,
  });
  assert.equal(status, 1, stderr);
  assert.match(stderr, /^srun: error: the step cannot be started, because the wrapper of the job does not answer/);
});
