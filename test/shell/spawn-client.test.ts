import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { createLocalShell } from '../../src/shell/local-shell.ts';
import { createSpawnClient } from '../../src/shell/spawn-client.ts';
import { until } from '../support/until.ts';
import { generousLimits } from './shell-contract.ts';

const transient = { name: 'BursarError', code: 'unavailable', transient: true };

const isRunning = (pid: number) => {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
};
const waitUntilGone = (pid: number) => until(`process ${pid} has ended`, () => (isRunning(pid) ? undefined : true));

function createShell(options = {}) {
  const shell = createLocalShell({ environment: {}, startProcess: createSpawnClient(options) });
  const sh = (script: string, overrides = {}) => shell.run(['sh', '-c', script], generousLimits(overrides));
  /** The parent of a command is the spawn server. */
  const readServerPid = async () => Number((await sh('echo $PPID')).stdout);
  /** Starts a command that runs until it is killed; returns its pid. */
  async function startLongCommand(overrides = {}) {
    const file = `/tmp/bursar-spawn-${process.pid}-${Math.random()}`;
    const end = sh(`echo $$ > ${file}; exec sleep 1000`, { timeoutMs: 60_000, ...overrides });
    const ended = end.then(
      () => null,
      (error: Error) => error,
    );
    const pid = await until('the command runs', async () => Number((await sh(`cat ${file}`)).stdout) || undefined);
    await sh(`rm ${file}`);
    return { pid, ended };
  }
  return { sh, readServerPid, startLongCommand };
}

const toImport = (path: string) => JSON.stringify(new URL(`../../src/shell/${path}`, import.meta.url).href);
/** For scripts in a process of their own. */
const createShellScript = `
  import { closeSync, openSync } from 'node:fs';
  import { createLocalShell } from ${toImport('local-shell.ts')};
  import { createSpawnClient } from ${toImport('spawn-client.ts')};
  const startProcess = createSpawnClient();
  const shell = createLocalShell({ environment: {}, startProcess });
  const limits = { signal: new AbortController().signal, timeoutMs: 60000, maxOutputBytes: 100 };
  const sh = (script) => shell.run(['sh', '-c', script], limits);
`;

describe('the spawn server', { concurrency: true }, () => {
  test('is not this process, and starts all commands', async () => {
    const { readServerPid } = createShell();
    const pids = new Set([await readServerPid(), await readServerPid()]);
    assert.equal(pids.size, 1);
    assert.equal(pids.has(process.pid), false);
  });

  test('is started again after its end; its commands fail as unavailable, and do not run on', async () => {
    const { sh, readServerPid, startLongCommand } = createShell();
    const server = await readServerPid();
    const { pid, ended } = await startLongCommand();
    process.kill(server, 'SIGKILL');
    const error = await ended;
    assert.ok(error);
    await assert.rejects(
      async () => {
        throw error;
      },
      { ...transient, message: /^sh on this host was interrupted/ },
    );
    await waitUntilGone(pid);
    assert.equal((await sh('echo again')).stdout, 'again\n');
    assert.notEqual(await readServerPid(), server);
  });

  test('that does not answer is replaced', async () => {
    const { sh, readServerPid } = createShell({ maxResponseMs: 5000 });
    const server = await readServerPid();
    process.kill(server, 'SIGSTOP');
    await assert.rejects(sh('true'), transient);
    await waitUntilGone(server);
    assert.equal((await sh('echo again')).stdout, 'again\n');
  });

  test('that hangs does not delay timeouts and aborts; a command that it starts later is killed', async () => {
    const { sh, readServerPid, startLongCommand } = createShell();
    const server = await readServerPid();
    const controller = new AbortController();
    const { pid, ended } = await startLongCommand({ signal: controller.signal });
    process.kill(server, 'SIGSTOP');
    const unstarted = sh('sleep 1000', { timeoutMs: 200 });
    controller.abort();
    await assert.rejects(unstarted, {
      ...transient,
      message: 'sh on this host did not answer within 0.2 s. Try again later.',
    });
    assert.match(String(await ended), /sh on this host was interrupted\./);
    // It was not replaced meanwhile.
    assert.equal(isRunning(server), true);
    process.kill(server, 'SIGCONT');
    assert.equal(await readServerPid(), server);
    await waitUntilGone(pid);
    const children = `/proc/${server}/task/${server}/children`;
    await until('the other command has ended', () => (readFileSync(children, 'utf8') === '' ? true : undefined));
  });

  test('that ends does not hide why its command was killed', async () => {
    const { sh, readServerPid } = createShell();
    const server = await readServerPid();
    const controller = new AbortController();
    const ended = sh('sleep 1000', { signal: controller.signal });
    await sh('true');
    process.kill(server, 'SIGSTOP');
    controller.abort();
    process.kill(server, 'SIGKILL');
    await assert.rejects(ended, { ...transient, message: 'sh on this host was interrupted.' });
  });

  test('without file descriptors says so, and starts commands when it has some', async () => {
    const { sh, readServerPid } = createShell();
    const server = await readServerPid();
    const setLimit = (count: number) => promisify(execFile)('prlimit', ['--pid', `${server}`, `--nofile=${count}:`]);
    await setLimit(3);
    await assert.rejects(sh('true'), { ...transient, message: 'sh on this host could not be started (EMFILE).' });
    await setLimit(1000);
    assert.equal(await readServerPid(), server);
  });

  test('works on after signals that a service manager sends to all processes', async () => {
    const { readServerPid } = createShell();
    const server = await readServerPid();
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.kill(server, signal);
    assert.equal(await readServerPid(), server);
  });

  test('is started when there are file descriptors again', async () => {
    const script = `${createShellScript}
      const files = [];
      try {
        for (;;) files.push(openSync('/dev/null'));
      } catch {}
      const failed = await sh('true').catch(({ code, cause }) => code + ' ' + cause.code);
      for (const file of files) closeSync(file);
      process.stdout.write(failed + ' ' + (await sh('echo again')).stdout);
    `;
    const node = `ulimit -n 100; exec "$0" --input-type=module -e "$1"`;
    const { stdout } = await promisify(execFile)('bash', ['-c', node, process.execPath, script]);
    assert.equal(stdout, 'unavailable EMFILE again\n');
  });

  for (const end of ['returns', 'is killed'])
    test(`ends when the process that uses it ${end}`, async () => {
      const script = `${createShellScript}
        process.stdout.write((await sh('echo $PPID')).stdout);
        if (${end === 'is killed'}) await sh('sleep 5');
      `;
      const user = spawn(process.execPath, ['--input-type=module', '-e', script], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      // It can end before its output is read.
      const exit = once(user, 'exit');
      const [output] = await once(user.stdout, 'data');
      const server = Number(String(output));
      assert.ok(server > 0);
      if (end === 'is killed') user.kill('SIGKILL');
      await exit;
      await waitUntilGone(server);
    });
});
