import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { killGroup } from '../../support/attempt.ts';
import { removeDataFolder } from '../../support/data-folder.ts';
import { until } from '../../support/until.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** Runs the real `npm start` in a process group of its own, as a terminal does, until the server is ready. */
async function npmStart(t: TestContext) {
  const data = mkdtempSync(join(tmpdir(), 'bursar-test-'));
  const env = { ...process.env, BURSAR_DATA: data, BURSAR_PORT: '0' };
  const npm = spawn('npm', ['start'], { cwd: root, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  const { pid = 0 } = npm;
  let output = '';
  for (const stream of [npm.stdout, npm.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  // Emitted when every process that has inherited the pipes has ended.
  let isClosed = false;
  const closed = once(npm, 'close').then(() => {
    isClosed = true;
  });
  t.after(async () => {
    if (!isClosed) killGroup(npm.pid);
    await closed;
    await removeDataFolder(data);
  });
  await until('the server is ready', () => (/serves http/.test(output) ? true : undefined));
  return { pid, npm, output: () => output, isClosed: () => isClosed };
}

describe('npm start', { concurrency: 2 }, () => {
  for (const [ending, signal, isForGroup] of [
    ['SIGTERM', 'SIGTERM', false],
    ['SIGINT', 'SIGINT', false],
    ['SIGHUP', 'SIGHUP', false],
    ['SIGKILL', 'SIGKILL', false],
    ['Ctrl-C in its terminal', 'SIGINT', true],
  ] as const) {
    test(`${ending} stops the server in order and leaves no process behind`, async (t) => {
      const { pid, npm, output, isClosed } = await npmStart(t);
      process.kill(isForGroup ? -pid : pid, signal);
      await until('all processes have ended', () => (isClosed() ? true : undefined));
      assert.match(output(), /"msg":"stopped"/);
      if (signal === 'SIGTERM') assert.equal(npm.exitCode, 0);
    });
  }
});
