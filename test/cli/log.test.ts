import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openLog } from '../../src/cli/operator/log.ts';
import { formatLogLine } from '../../src/cli/operator/log-text.ts';
import { until } from '../support/until.ts';

const logModule = new URL('../../src/cli/operator/log.ts', import.meta.url);

/** The source of a program that opens the log as `log`, runs a script, and then stays alive unless the script ends it. */
const logging = (script: string, format = 'auto') => `const { openLog } = await import('${logModule}');
  const { log } = openLog({ level: 'info', format: '${format}' });
  setInterval(() => undefined, 1000);
  ${script}`;

function startLogging(script: string) {
  const argv = ['--input-type=module', '-e', logging(script)];
  return spawn(process.execPath, argv, { stdio: ['ignore', 'ignore', 'pipe'] });
}

/** Runs a script on a real terminal, and returns its log. */
async function terminalOutput(script: string, format?: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-test-'));
  const file = join(folder, 'log.mjs');
  writeFileSync(file, logging(script, format));
  try {
    const terminal = spawn('script', ['-qec', `'${process.execPath}' '${file}'`, '/dev/null'], { stdio: 'pipe' });
    return (await text(terminal.stdout)).replaceAll('\r\n', '\n');
  } finally {
    rmSync(folder, { recursive: true });
  }
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

  test('is text on a terminal, written line by line', async () => {
    const output = await terminalOutput(
      `log.info({ jobId: 'A1', reason: 'two words', ms: 2.5 }, 'job submitted'); log.error(new Error('a bug')); ${kill}`,
    );
    const [first = '', second = '', third = ''] = output.split('\n');
    assert.match(first, /^\d\d:\d\d:\d\d INFO {2}job submitted jobId=A1 reason="two words" ms=2.5$/);
    assert.match(second, /^\d\d:\d\d:\d\d ERROR a bug$/);
    assert.match(third, /^ {4}Error: a bug$/);
  });

  test('is JSON on a terminal if the configuration says so', async () => {
    const output = await terminalOutput("log.info('first'); process.exit();", 'json');
    assert.equal(JSON.parse(output).msg, 'first');
  });

  test('the text has no escape sequences of its own or of a caller', () => {
    const line = JSON.stringify({
      level: 40,
      time: 0,
      path: '/\u001b[2J',
      msg: 'bad \u001b]0;title\u0007',
      err: { stack: '\u009b' },
    });
    assert.doesNotMatch(formatLogLine(line), /(?!\n)\p{Cc}/u);
    assert.match(formatLogLine(line), /WARN {2}bad \\u001b\]0;title\\u0007 path="\/\\u001b\[2J"\n {4}\\?/);
  });

  test('a reader that has gone does not end the process', async () => {
    const child = startLogging("setInterval(() => log.warn('a line'), 10);");
    await once(child.stderr, 'data');
    child.stderr.destroy();
    await sleep(200);
    assert.equal(child.exitCode, null);
    child.kill();
    await once(child, 'exit');
  });

  test('a log file that cannot be opened is an error of the configuration', () => {
    assert.throws(() => openLog({ level: 'info', format: 'json', file: '/no/such/folder/bursar.log' }), {
      code: 'invalid_config',
      message: /^log\.file: cannot write to \/no\/such\/folder\/bursar\.log: ENOENT/,
    });
  });

  test('if the file cannot be opened anew, the log continues in the old one', () => {
    const folder = mkdtempSync(join(tmpdir(), 'bursar-test-'));
    const file = join(folder, 'bursar.log');
    const { log, reopen } = openLog({ level: 'info', format: 'auto', file });
    log.warn('first');
    renameSync(file, `${file}.1`);
    mkdirSync(file);
    for (let n = 0; n < 2; n++) assert.throws(reopen, { code: 'invalid_config' });
    log.warn('second');
    rmdirSync(file);
    reopen();
    log.warn('third');
    const messages = (path: string) => readFileSync(path, 'utf8').match(/first|second|third/g);
    assert.deepEqual([messages(`${file}.1`), messages(file)], [['first', 'second'], ['third']]);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    rmSync(folder, { recursive: true });
  });

  test('a full disk does not keep a process from its end', async () => {
    const log = openSync('/dev/full', 'w');
    const argv = ['--input-type=module', '-e', logging("log.warn('a line'); setTimeout(() => process.exit(7), 50);")];
    const child = spawn(process.execPath, argv, { stdio: ['ignore', 'ignore', log] });
    assert.deepEqual(await once(child, 'exit'), [7, null]);
  });
});
