import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type ShellVariables, setVariables } from '../../../../src/engines/batch/shell-program.ts';
import { requestFolder, srunProgram, stepsProgram, stepVariables } from '../../../../src/engines/slurm/steps.ts';
import { eventually } from '../../../engines/observing.ts';
import { temporaryFolder } from '../../../files/temporary.ts';
import { killGroup } from '../../../support/attempt.ts';
import { localSandbox } from '../../../support/bubblewrap.ts';

/** Runs the part of the wrapper that serves requests, and records which ones it accepts, and when it stops waiting for one. */
async function serveSteps(t: TestContext, changes: ShellVariables) {
  let end = async () => {};
  // Before the removal of the folders.
  t.after(() => end());
  const [steps, folder] = [await temporaryFolder(t), await temporaryFolder(t)];
  const requests = join(steps, 'requests');
  execFileSync('mkfifo', [requests]);
  const script = `folder=$2
    mv() { command mv "$@" && echo "\${!#}" >> "$folder/accepted"; }
    read() { builtin read "$@" || { echo >> "$folder/timeouts"; return 1; }; }
    ${setVariables({ ...stepVariables('', { scheduler: false }), ...changes })}
    ${stepsProgram}
    steps=$1
    serve_steps`;
  const server = spawn('bash', ['-c', script, 'bash', steps, folder], { stdio: 'ignore', detached: true });
  const exit = once(server, 'exit');
  end = async () => {
    killGroup(server.pid);
    await exit;
  };
  const readLines = (name: string) =>
    existsSync(join(folder, name)) ? readFileSync(join(folder, name), 'utf8').split('\n').slice(0, -1) : [];
  return {
    steps,
    request: (text: string) => writeFileSync(requests, text),
    acceptedIds: () => readLines('accepted').map((path) => basename(path)),
    countTimeouts: () => readLines('timeouts').length,
  };
}

test('requests whose programs were killed before they were served do not occupy the wrapper', async (t) => {
  const { steps, request, acceptedIds } = await serveSteps(t, { answer_seconds: 1 });
  const ids = Array.from({ length: 70 }, (_, index) => `1.${index}`);
  request(ids.map((id) => `${id}\n`).join(''));
  // The first ones may be dropped before the last ones are accepted.
  await eventually('all requests are accepted', async () => acceptedIds().length === ids.length);
  await eventually('all requests are dropped', async () => readdirSync(steps).join() === 'requests');
});

test('a request is accepted although a timeout comes while it is read', async (t) => {
  // As while other steps wait for their start.
  const { request, acceptedIds, countTimeouts } = await serveSteps(t, { idle_seconds: 0.1 });
  for (const part of ['1.2', '3\n', 'text that is too long for an id', '\n', '1', '.4', '\n']) {
    request(part);
    const before = countTimeouts();
    // The first one may belong to what was written before.
    await eventually('a timeout comes after this', async () => countTimeouts() >= before + 2);
  }
  await eventually('both requests are accepted', async () => acceptedIds().join() === '1.23,1.4');
});

test('srun fails if the wrapper does not answer', async (t) => {
  const folder = await temporaryFolder(t);
  mkdirSync(join(folder, 'bin'));
  const program = srunProgram.replace(/^answer_seconds=\d+$/m, 'answer_seconds=1');
  writeFileSync(join(folder, 'bin/srun'), program, { mode: 0o755 });
  execFileSync('mkfifo', [join(folder, 'requests')]);
  const sandbox = ['--ro-bind', '/', '/', '--dev', '/dev', '--tmpfs', '/run', '--bind', folder, requestFolder];
  const { status, stderr } = spawnSync(localSandbox().program, [...sandbox, `${requestFolder}/bin/srun`, 'true'], {
    encoding: 'utf8',
    timeout: 30_000,
  });
  assert.equal(status, 1, stderr);
  assert.match(stderr, /^srun: error: the step cannot be started, because the wrapper of the job does not answer/);
});
