import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { JobCommand } from '../../../src/domain/jobs/job.ts';
import { sbatchLanguage } from '../../../src/engines/slurm/sbatch-language.ts';

function parse(text: string): JobCommand {
  const parsed = sbatchLanguage.parse(text);
  assert.ok(parsed.ok, `${text}: ${parsed.ok ? '' : parsed.error}`);
  return parsed.command;
}

function parseError(text: string): string {
  const parsed = sbatchLanguage.parse(text);
  assert.ok(!parsed.ok, `accepted: ${text}`);
  return parsed.error;
}

const script = (name: string, ...args: string[]): JobCommand => ({ kind: 'script', script: name, args });
const line = (text: string): JobCommand => ({ kind: 'line', line: text });

describe('sbatchLanguage.parse: a command that is not sbatch', () => {
  test('becomes an unchanged line for the shell', () => {
    for (const text of [
      'echo hello',
      '  echo "hello',
      'srun --uid=0 ./a.out',
      'sbatch.sh --uid=0',
      'sbatchx run.sh',
      '/usr/bin/sbatch --uid=0 run.sh',
      'SBATCH run.sh',
      'echo sbatch --uid=0',
      '"sbatch" run.sh',
      '',
    ]) {
      assert.deepEqual(parse(text), line(text));
    }
  });

  test('is unchanged, whatever it contains', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        fc.pre(!/^\s*sbatch(\s|$)/.test(text));
        assert.deepEqual(parse(text), line(text));
      }),
    );
  });
});

describe('sbatchLanguage.parse: sbatch', () => {
  test('parses the script and its arguments', () => {
    assert.deepEqual(parse('sbatch run.sh'), script('run.sh'));
    assert.deepEqual(parse('  sbatch   run.sh  a  b '), script('run.sh', 'a', 'b'));
    assert.deepEqual(parse('sbatch\trun.sh'), script('run.sh'));
    assert.deepEqual(parse('sbatch jobs/run.sh'), script('jobs/run.sh'));
  });

  test('accepts allowed options in every form', () => {
    for (const option of [
      '--nodes=2',
      '--nodes 2',
      '-N2',
      '-N 2',
      '-n 4',
      '-n4',
      '--ntasks=4',
      '--ntasks-per-node=2',
      '-c 3',
      '--cpus-per-task 3',
      '-t 1:00:00',
      '--time=1-00:00:00',
      '-J name',
      '-Jname',
      '--job-name="my job"',
      '--parsable',
      '-N 1 -n 2 --time 5 --parsable',
    ]) {
      assert.deepEqual(parse(`sbatch ${option} run.sh a`), script('run.sh', 'a'), option);
    }
  });

  test('parses --wrap, and rejects it together with a script', () => {
    assert.deepEqual(parse('sbatch --wrap="echo hello | wc"'), line('echo hello | wc'));
    assert.deepEqual(parse("sbatch --wrap 'echo hello' -N 1"), line('echo hello'));
    assert.deepEqual(parse('sbatch -N 1 --wrap=hostname'), line('hostname'));
    assert.match(parseError('sbatch --wrap=hostname run.sh'), /not both/);
  });

  test('passes everything after the script to the script', () => {
    assert.deepEqual(parse('sbatch run.sh --uid=0 -D /'), script('run.sh', '--uid=0', '-D', '/'));
    assert.deepEqual(parse('sbatch run.sh -- --wrap=x'), script('run.sh', '--', '--wrap=x'));
    assert.deepEqual(parse('sbatch - x'), script('-', 'x'));
  });

  test('rejects a missing script, and an option without its value', () => {
    for (const text of ['sbatch', ' sbatch ', 'sbatch -N 1', 'sbatch --parsable', 'sbatch --nodes run.sh']) {
      assert.match(parseError(text), /script/, text);
    }
    for (const text of ['sbatch --nodes', 'sbatch -N', 'sbatch -N 1 --time', 'sbatch --wrap']) {
      assert.match(parseError(text), /needs a value/, text);
    }
  });

  test('rejects an empty script name and an empty --wrap', () => {
    assert.match(parseError('sbatch ""'), /script/);
    assert.match(parseError('sbatch --wrap=""'), /wrap|empty/);
    assert.match(parseError('sbatch --wrap ""'), /wrap|empty/);
  });
});

describe('sbatchLanguage.parse: options that are not allowed', () => {
  const allowed = new Set('nodes ntasks ntasks-per-node cpus-per-task time job-name parsable wrap'.split(' '));

  test('are rejected by name, with the list of allowed options', () => {
    for (const option of ['uid', 'gid', 'chdir', 'array', 'account', 'dependency', 'export', 'partition', 'qos']) {
      for (const text of [
        `sbatch --${option}=x run.sh`,
        `sbatch --${option} x run.sh`,
        `sbatch -N 1 --${option} run.sh`,
      ]) {
        assert.match(parseError(text), new RegExp(`--${option} is not allowed; allowed are nodes`), text);
      }
    }
    for (const letter of 'DaAdoeipqwxLMHWVhQ') {
      assert.match(parseError(`sbatch -${letter} x run.sh`), new RegExp(`-${letter} is not allowed`));
      assert.match(parseError(`sbatch -${letter}x run.sh`), new RegExp(`-${letter} is not allowed`));
    }
  });

  test('are rejected with what to do instead, if they are about the resources or the output of the job', () => {
    for (const [text, pattern] of [
      ['--mem=50', /^the sbatch option --mem is not allowed; remove it: .*\(node_number, core_number\)/],
      ['--mem-per-cpu 2G', /--mem-per-cpu is not allowed; remove it: .*core_number/],
      ['-C gpu', /-C is not allowed; remove it: the operators/],
      ['--constraint=gpu', /--constraint is not allowed; remove it: the operators/],
      ['--exclusive', /--exclusive is not allowed; .*use core_number/],
      ['--exclusive=user', /--exclusive is not allowed; .*use core_number/],
      ['-o out.txt', /-o is not allowed; .*stdout/],
      ['--error=err.txt', /--error is not allowed; .*stderr/],
      ['--parsable=yes', /--parsable has no value/],
    ] as const)
      assert.match(parseError(`sbatch ${text} run.sh`), pattern);
  });

  test('are rejected as abbreviations, which sbatch itself would accept', () => {
    for (const option of [
      'ui=0',
      'u=0',
      'chd=/',
      'arr=1-9',
      'node=2',
      'nod=2',
      'exclusiv',
      'wra=true',
      'tim=1',
      'ntasks-per=1',
    ]) {
      assert.match(parseError(`sbatch --${option} run.sh`), /not allowed/, option);
    }
  });

  test('are rejected however they are quoted', () => {
    for (const text of [
      'sbatch "--uid=0" run.sh',
      "sbatch '--uid' 0 run.sh",
      "sbatch --u'i'd=0 run.sh",
      'sbatch --\\uid=0 run.sh',
      'sbatch \\-\\-uid=0 run.sh',
      'sbatch -N 1 "--uid"=0 run.sh',
    ]) {
      assert.match(parseError(text), /--uid is not allowed/, text);
    }
  });

  test('include every name that is not in the list', () => {
    const name = fc.stringMatching(/^[a-zA-Z_-]{0,20}$/);
    fc.assert(
      fc.property(name, fc.constantFrom('=x', ' x', ''), (option, value) => {
        fc.pre(!allowed.has(option));
        assert.match(parseError(`sbatch --${option}${value} run.sh`), /not allowed/);
      }),
    );
    for (const option of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', '']) {
      assert.match(parseError(`sbatch --${option}=x run.sh`), /not allowed/);
    }
  });
});

describe('sbatchLanguage.parse: quotes', () => {
  test('keep words together; an unclosed quote is rejected', () => {
    assert.deepEqual(parse(`sbatch run.sh "a b" 'c d' e\\ f`), script('run.sh', 'a b', 'c d', 'e f'));
    assert.deepEqual(parse(`sbatch run.sh "" ''`), script('run.sh', '', ''));
    assert.deepEqual(parse(`sbatch run.sh a"b"'c'\\d`), script('run.sh', 'abcd'));
    assert.deepEqual(
      parse(`sbatch run.sh "a\\"b" "a\\\\b" "a\\nb" '\\'`),
      script('run.sh', 'a"b', 'a\\b', 'a\\nb', '\\'),
    );
    for (const text of ['sbatch "run.sh', "sbatch run.sh 'a", 'sbatch run.sh "a\\"', `sbatch run.sh "a'`]) {
      assert.match(parseError(text), /quote/, text);
    }
  });

  test('are the only shell syntax: nothing is expanded', () => {
    const words = ['$HOME', '`id`', '$(id)', '*', '~', '{a,b}', 'a;b', 'a|b', '>x', '&', '#x'];
    assert.deepEqual(parse(`sbatch run.sh ${words.join(' ')}`), script('run.sh', ...words));
  });

  test('preserve any quoted words exactly', () => {
    const single = (word: string) => `'${word.replaceAll("'", `'\\''`)}'`;
    const double = (word: string) => `"${word.replaceAll(/["\\$`]/g, '\\$&')}"`;
    const words = fc.array(fc.tuple(fc.string(), fc.constantFrom(single, double)), { maxLength: 8 });
    fc.assert(
      fc.property(words, (quoted) => {
        const text = quoted.map(([word, quote]) => quote(word)).join(' ');
        assert.deepEqual(parse(`sbatch run.sh ${text}`), script('run.sh', ...quoted.map(([word]) => word)));
      }),
    );
  });

  test('never cause an exception', () => {
    const fragments = fc.constantFrom('"', "'", '\\', ' ', 'a', '-', '--', '=', 'N', 'nodes', 'wrap', '$', '\t');
    fc.assert(
      fc.property(fc.array(fragments, { maxLength: 20 }), (parts) => {
        const parsed = sbatchLanguage.parse(`sbatch ${parts.join('')}`);
        if (!parsed.ok) assert.match(parsed.error, /\w/);
        else assert.notEqual(parsed.command.kind, 'argv');
      }),
      { numRuns: 2000 },
    );
  });
});

describe('sbatchLanguage.format', () => {
  test('returns a text that is parsed to the same command', () => {
    const word = fc.oneof(fc.string(), fc.constantFrom("it's", '', '--nodes', 'a b', '$HOME', '\\', '"'));
    const name = fc.constantFrom('run.sh', 'my scripts/run "it" now.sh', "it's.sh");
    fc.assert(
      fc.property(name, fc.array(word), (scriptName, args) => {
        const command = script(scriptName, ...args);
        assert.deepEqual(parse(sbatchLanguage.format(command) ?? ''), command);
      }),
    );
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.constantFrom('sbatch run.sh', " sbatch 'it'", 'echo "a"')), (text) => {
        assert.deepEqual(parse(sbatchLanguage.format(line(text)) ?? ''), line(text));
      }),
    );
  });

  test('leaves plain words as they are, and has no text for the argv of a tool', () => {
    assert.equal(sbatchLanguage.format(script('run.sh', '--n=2', 'a b')), "sbatch run.sh --n=2 'a b'");
    assert.equal(sbatchLanguage.format({ kind: 'argv', argv: ['bash'] }), null);
  });
});
