import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { bursar } from '../support/command-line.ts';

// What holds for every command: help, exit codes, and which stream says what.

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
describe('command line', { concurrency: 3 }, () => {
  for (const command of commands) {
    test(`${['bursar', ...command].join(' ')} --help explains itself on standard output, and exits 0`, async () => {
      const { code, stdout, stderr } = await bursar([...command, '--help']);
      assert.equal(code, 0, stderr);
      assert.match(stdout, new RegExp(`^Usage: ${['bursar', ...command].join(' ')}\\b`));
      assert.equal(stderr, '');
    });
  }

  test('the help of the program tells of every command, the environment and the exit codes', async () => {
    const { stdout } = await bursar(['--help']);
    for (const word of ['serve', 'token', 'config', 'BURSAR_CONFIG', 'BURSAR_HOST', 'BURSAR_PORT', 'BURSAR_DATA']) {
      assert.ok(stdout.includes(word), word);
    }
    assert.match(stdout, /Exit codes: 0 .*1 .*2 .*3 .*4 .*5 /);
  });

  test('--version prints the version alone', async () => {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
    assert.deepEqual(await bursar(['--version']), { code: 0, stdout: `${version}\n`, stderr: '' });
  });

  for (const [what, args, says] of [
    ['an unknown command', ['frobnicate'], /unknown command 'frobnicate'/],
    ['an unknown command of token', ['token', 'frobnicate'], /unknown command 'frobnicate'/],
    ['an unknown command of config', ['config', 'frobnicate'], /unknown command 'frobnicate'/],
    ['an unknown option', ['serve', '--frobnicate'], /unknown option '--frobnicate'/],
    ['an argument too many', ['config', 'check', 'file.yaml'], /too many arguments/],
    ['no command', [], /Usage: bursar/],
    ['a group without its command', ['token'], /Usage: bursar token/],
    ['a required option left out', ['token', 'create'], /--user <number>/],
    ['an option without its value', ['token', 'create', '--user'], /argument missing/],
    ['a required argument left out', ['token', 'revoke'], /missing required argument 'id'/],
  ] as const) {
    test(`wrong usage, ${what}: exit code 2, and the reason on standard error`, async () => {
      const { code, stdout, stderr } = await bursar([...args]);
      assert.equal(code, 2);
      assert.match(stderr, says);
      assert.equal(stdout, '');
      assert.doesNotMatch(stderr, /^\s+at /m, 'a stack trace');
    });
  }

  test('a command that was misspelt is told the nearest one', async () => {
    assert.match((await bursar(['tokne'])).stderr, /Did you mean token\?/);
  });
});
