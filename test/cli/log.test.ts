import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { openLog } from '../../src/cli/operator/server/log.ts';
import { formatLogLine } from '../../src/cli/operator/server/log-text.ts';
import { until } from '../support/until.ts';

describe('openLog', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'bursar-log-'));
  });
  after(() => rmSync(folder, { recursive: true }));

  function openFile(name: string) {
    const file = join(folder, name);
    const { log } = openLog({ level: 'info', format: 'auto', file });
    const lines = () => readFileSync(file, 'utf8').split('\n').filter(Boolean);
    return { log, messages: () => lines().map((line) => JSON.parse(line).msg) };
  }

  test('holds lines back, and writes them after a while when no other line follows', async () => {
    const { log, messages } = openFile('alone');
    log.info('first');
    log.info('second');
    assert.deepEqual(messages(), []);
    await until('the lines are written', () => messages().length > 0 || undefined);
    assert.deepEqual(messages(), ['first', 'second']);
  });

  test('writes lines as soon as they fill a batch', () => {
    const { log, messages } = openFile('batches');
    for (let n = 0; n < 1000; n++) log.info(`line ${n}`);
    const written = messages();
    assert.ok(written.length > 900 && written.length < 1000, String(written.length));
    assert.equal(written[0], 'line 0');
  });

  for (const level of ['warn', 'error', 'fatal'] as const) {
    test(`writes a line of level ${level} at once, after the lines before it`, () => {
      const { log, messages } = openFile(level);
      log.info('first');
      log[level]('second');
      assert.deepEqual(messages(), ['first', 'second']);
    });
  }

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

  test('a log file that cannot be opened is an error of the configuration', () => {
    assert.throws(() => openLog({ level: 'info', format: 'json', file: '/no/such/folder/bursar.log' }), {
      code: 'invalid_config',
      message: /^log\.file: cannot write to \/no\/such\/folder\/bursar\.log: ENOENT/,
    });
  });

  test('if the file cannot be opened anew, the log continues in the old one', () => {
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
  });
});
