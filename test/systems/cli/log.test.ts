import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../support/until.ts';

const logModule = new URL('../../../src/cli/operator/server/log.ts', import.meta.url);

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

describe('the log of a process', { concurrency: 2 }, () => {
  for (const [ending, script] of [
    ['process.exit()', 'process.exit(130);'],
    ['an uncaught exception', "setImmediate(() => { throw new Error('a bug'); });"],
    ['an unhandled rejection', "Promise.reject(new Error('a bug'));"],
  ] as const) {
    test(`is complete when the process ends by ${ending}`, async () => {
      assert.deepEqual(await messagesOf(`log.info('first'); log.info('last'); ${script}`), ['first', 'last']);
    });
  }

  test('is text on a terminal, written line by line', async () => {
    const output = await terminalOutput(
      `log.info({ jobId: 'A1', reason: 'two words', ms: 2.5 }, 'job submitted'); log.error(new Error('a bug')); process.kill(process.pid, 'SIGKILL');`,
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

  test('a reader that has gone does not end the process', async () => {
    const child = startLogging("setInterval(() => log.warn('a line'), 10);");
    await once(child.stderr, 'data');
    child.stderr.destroy();
    await sleep(200);
    assert.equal(child.exitCode, null);
    child.kill();
    await once(child, 'exit');
  });

  test('a full disk does not keep a process from its end', async () => {
    const log = openSync('/dev/full', 'w');
    const argv = ['--input-type=module', '-e', logging("log.warn('a line'); setTimeout(() => process.exit(7), 50);")];
    const child = spawn(process.execPath, argv, { stdio: ['ignore', 'ignore', log] });
    assert.deepEqual(await once(child, 'exit'), [7, null]);
  });
});

describe('SIGHUP', { concurrency: 4 }, () => {
  const module = new URL('../../../src/cli/operator/server/reload.ts', import.meta.url);
  /** A program that says what each SIGHUP means. */
  const program = (file: string) => `import { appendFileSync } from 'node:fs';
    import { onHangUp } from '${module}';
    const say = (word) => appendFileSync('${file}', word + ' ');
    onHangUp(() => say('reload'), () => { say('closed'); process.exit(); });
    say(process.pid);
    setInterval(() => undefined, 1000);`;

  for (const [name, redirection, atEnd] of [
    ['a terminal', '', 'closed'],
    ['a terminal, with its output redirected', '>/dev/null 2>&1', 'closed'],
    ['a terminal, with all streams redirected', '</dev/null >/dev/null 2>&1', 'reload'],
  ] as const) {
    test(`to a process that was started in ${name}`, async (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'bursar-test-'));
      const said = join(folder, 'said');
      writeFileSync(join(folder, 'program.mjs'), program(said));
      writeFileSync(said, '');
      const command = `exec '${process.execPath}' '${join(folder, 'program.mjs')}' ${redirection}`;
      const terminal = spawn('script', ['-qec', command, '/dev/null'], { stdio: ['pipe', 'ignore', 'ignore'] });
      const words = () => readFileSync(said, 'utf8').split(' ').slice(0, -1);
      const pid = Number(await until('the program runs', () => words()[0]));
      t.after(() => {
        if (atEnd === 'reload') process.kill(pid, 'SIGKILL');
        rmSync(folder, { recursive: true });
      });
      process.kill(pid, 'SIGHUP');
      await until('the reload', () => words()[1]);
      terminal.kill('SIGKILL');
      await until('the end of the terminal', () => words()[2]);
      assert.deepEqual(words().slice(1, 3), ['reload', atEnd]);
    });
  }
});
