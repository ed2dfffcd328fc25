import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { until } from '../support/until.ts';

const logModule = new URL('../../src/cli/log.ts', import.meta.url);

/** Starts a process that opens the log as `log`, runs a script, and then stays alive unless the script ends it. */
function startLogging(script: string) {
  const source = `const { openLog } = await import('${logModule}');
    const log = openLog('info');
    setInterval(() => undefined, 1000);
    ${script}`;
  return spawn(process.execPath, ['--input-type=module', '-e', source], { stdio: ['ignore', 'ignore', 'pipe'] });
}

async function messagesOf(script: string): Promise<string[]> {
  const lines = (await text(startLogging(script).stderr)).split('\n').filter((line) => line.startsWith('{'));
  return lines.map((line) => JSON.parse(line).msg);
}

const kill = "process.kill(process.pid, 'SIGKILL');";

describe('openLog', { concurrency: 2 }, () => {
  test('holds lines back, so that several are written together', async () => {
    assert.deepEqual(await messagesOf(`log.info('first'); ${kill}`), []);
  });

  test('writes lines as soon as they fill a batch', async () => {
    const messages = await messagesOf(`for (let n = 0; n < 1000; n++) log.info('line ' + n); ${kill}`);
    assert.ok(messages.length > 900, String(messages.length));
    assert.equal(messages[0], 'line 0');
  });

  for (const level of ['warn', 'error', 'fatal']) {
    test(`writes a line of level ${level} at once, after the lines before it`, async () => {
      assert.deepEqual(await messagesOf(`log.info('first'); log.${level}('second'); ${kill}`), ['first', 'second']);
    });
  }

  test('writes a line after a while when no other line follows', async () => {
    const child = startLogging("log.info('alone');");
    let output = '';
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      output += chunk;
    });
    await until('the line is written', () => (output.includes('"alone"') ? true : undefined));
    child.kill();
    await once(child, 'exit');
  });

  for (const [ending, script] of [
    ['process.exit()', 'process.exit(130);'],
    ['an uncaught exception', "setImmediate(() => { throw new Error('a bug'); });"],
    ['an unhandled rejection', "Promise.reject(new Error('a bug'));"],
  ] as const) {
    test(`writes all lines when the process ends by ${ending}`, async () => {
      assert.deepEqual(await messagesOf(`log.info('first'); log.info('last'); ${script}`), ['first', 'last']);
    });
  }
});
