import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { bursar } from '../support/program.ts';

const commands = [
  [],
  ['serve'],
  ['token'],
  ['token', 'create'],
  ['token', 'list'],
  ['token', 'revoke'],
  ['config'],
  ['config', 'check'],
  ['config', 'print'],
];
describe('command line', () => {
  for (const command of commands) {
    test(`${['bursar', ...command].join(' ')} --help prints the usage to standard output and exits with 0`, async () => {
      const { code, stdout, stderr } = await bursar([...command, '--help']);
      assert.equal(code, 0, stderr);
      assert.match(stdout, new RegExp(`^Usage: ${['bursar', ...command].join(' ')}\\b`));
      assert.equal(stderr, '');
    });
  }

  test('bursar --help lists the commands, the environment variables and the exit codes', async () => {
    const { stdout } = await bursar(['--help']);
    for (const term of ['serve', 'token', 'config', 'BURSAR_CONFIG', 'BURSAR_HOST', 'BURSAR_PORT', 'BURSAR_DATA']) {
      assert.ok(stdout.includes(term), term);
    }
    assert.match(stdout, /Exit codes of the operators' commands: 0 .*1 .*2 .*3 .*4 .*5 /);
  });

  test('--version prints only the version', async () => {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
    assert.deepEqual(await bursar(['--version']), { code: 0, stdout: `${version}\n`, stderr: '' });
  });

  for (const [mistake, args, message] of [
    ['an unknown command', ['frobnicate'], /unknown command 'frobnicate'/],
    ['an unknown command of token', ['token', 'frobnicate'], /unknown command 'frobnicate'/],
    ['an unknown command of config', ['config', 'frobnicate'], /unknown command 'frobnicate'/],
    ['an unknown option', ['serve', '--frobnicate'], /unknown option '--frobnicate'/],
    ['an extra argument', ['config', 'check', 'file.yaml'], /too many arguments/],
    ['a missing command', [], /Usage: bursar/],
    ['a command group without a command', ['token'], /Usage: bursar token/],
    ['a missing required option', ['token', 'create'], /--user <number>/],
    ['an option without a value', ['token', 'create', '--user'], /argument missing/],
    ['a missing required argument', ['user', 'show'], /missing required argument 'number'/],
  ] as const) {
    test(`${mistake} exits with 2 and prints the reason to standard error`, async () => {
      const { code, stdout, stderr } = await bursar([...args]);
      assert.equal(code, 2);
      assert.match(stderr, message);
      assert.equal(stdout, '');
      assert.doesNotMatch(stderr, /^\s+at /m, 'a stack trace');
    });
  }

  test('a misspelt command suggests the nearest one', async () => {
    assert.match((await bursar(['tokne'])).stderr, /Did you mean token\?/);
  });
});
