import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertFieldRejected, type Hpc, rejectionOf } from './rejected-payloads.ts';

// The commands, tools and parameters of tools that `parsePayload` rejects. invalid-payload.test.ts has the other fields.

describe('command and tool', () => {
  const cases: [string, Hpc, unknown, RegExp][] = [
    ['no command', 'hpc_one', undefined, /required/],
    ['an empty command', 'hpc_one', '', /empty/],
    ['a command of spaces', 'hpc_one', '   ', /empty/],
    ['a command that is null', 'hpc_one', null, /must be a string/],
    ['a command that is a number', 'hpc_one', 7, /must be a string/],
    ['a command that is a boolean', 'hpc_one', true, /must be a string/],
    ['a command that is an array', 'hpc_one', ['echo', 'hello'], /must be a string/],
    ['a command that is an object', 'hpc_one', { run: 'echo' }, /must be a string/],
    ['a command with a line feed', 'hpc_one', 'echo a\necho b', /control characters/],
    ['a command with a NUL', 'hpc_one', 'echo a\0b', /control characters/],
    ['a command with an escape sequence', 'hpc_one', 'echo \u001b[2J', /control characters/],
    ['a command of 8193 characters', 'hpc_one', `echo ${'x'.repeat(8188)}`, /8192 characters/],
    ['no tool', 'hpc_two', undefined, /required/],
    ['an empty tool', 'hpc_two', '', /empty/],
    ['a tool that is null', 'hpc_two', null, /must be a string/],
    ['a tool that is a number', 'hpc_two', 7, /must be a string/],
    ['a tool that is an array', 'hpc_two', ['BASH'], /must be a string/],
    ['a tool that is an object', 'hpc_two', { name: 'BASH' }, /must be a string/],
    ['an unknown tool', 'hpc_two', 'FORTRAN', /BASH, PYTHON3, NODE/],
    ['a tool in lower case', 'hpc_two', 'bash', /BASH, PYTHON3, NODE/],
    ['a tool with a space', 'hpc_two', 'BASH ', /BASH, PYTHON3, NODE/],
    ['a tool that is a path', 'hpc_two', '/bin/bash', /BASH, PYTHON3, NODE/],
    ['a tool that is a name of the language', 'hpc_two', '__proto__', /BASH, PYTHON3, NODE/],
    ['a tool that is another name of the language', 'hpc_two', 'constructor', /BASH, PYTHON3, NODE/],
    ['a tool with a name of 65 characters', 'hpc_two', 'X'.repeat(65), /64 characters/],
    ['a tool with a line feed', 'hpc_two', 'BASH\n', /control characters/],
  ];
  for (const [name, hpc, value, says] of cases) {
    test(`rejects ${name}`, () => {
      const field = hpc === 'hpc_one' ? 'command' : 'tool';
      assertFieldRejected(hpc, JSON.stringify({ title: 'x', [field]: value }), field, says);
    });
  }
});

describe('sbatch', () => {
  const options = [
    '--uid=0',
    '--uid 0',
    '--gid=0',
    '--chdir=/',
    '-D /',
    '-D/',
    '--array=1-1000',
    '-a 1-1000',
    '--account=root',
    '-A root',
    '--dependency=afterok:1',
    '-d afterok:1',
    '--mail-user=a@b',
    '--input=/etc/shadow',
    '-i /etc/shadow',
    '--export=ALL',
    '--export-file=/etc/shadow',
    '--get-user-env',
    '--partition=debug',
    '-p debug',
    '--qos=high',
    '-q high',
    '--priority=TOP',
    '--nice=-100',
    '--reservation=x',
    '--prolog=/tmp/x',
    '--bcast=/tmp/x',
    '--licenses=x',
    '-L x',
    '--nodelist=node1',
    '-w node1',
    '--begin=now',
    '--hold',
    '-H',
    '--requeue',
    '--test-only',
    '--wait',
    '-W',
    '--version',
    '-V',
    '--help',
    '-h',
    '--propagate',
    '--clusters=x',
    '-M x',
    '--open-mode=append',
    '--ui=0',
    '--u=0',
    '--chd=/',
    '--node=2',
    '--wra=true',
    '--tim=1',
    '--UID=0',
    '--Nodes=1',
    '--=x',
    '--',
    '-x node1',
    '-Q',
    '-\u00e9',
    '--__proto__=x',
    '--constructor=x',
  ];
  for (const option of options) {
    test(`rejects the option ${option} by name`, () => {
      const written = /^--?[^= ]*/.exec(option)?.[0] ?? '';
      const named = written.startsWith('--') ? written : written.slice(0, 2);
      const { fields, message } = rejectionOf('hpc_one', JSON.stringify({ command: `sbatch ${option} run.sh` }));
      assert.match(message, /not allowed; allowed are nodes/);
      assert.ok(message.includes(`option ${named} is`), message);
      assert.deepEqual(
        fields.map((error) => error.field),
        ['command'],
      );
    });
  }

  const cases: [string, string, RegExp][] = [
    ['an option that is quoted', 'sbatch "--uid=0" run.sh', /--uid/],
    ['an option with a quote inside', "sbatch --u'id'=0 run.sh", /--uid/],
    ['an option with a backslash', 'sbatch --u\\id=0 run.sh', /--uid/],
    ['a refused option after allowed ones', 'sbatch -N 1 --time=1:00 --uid=0 run.sh', /--uid/],
    ['an output file', 'sbatch --output=/etc/passwd run.sh', /--output is not allowed/],
    ['an output file, in short', 'sbatch -o /etc/passwd run.sh', /-o is not allowed/],
    ['an error file', 'sbatch --error=/etc/passwd run.sh', /--error is not allowed/],
    ['an error file, in short', 'sbatch -e /etc/passwd run.sh', /-e is not allowed/],
    ['memory', 'sbatch --mem=50 run.sh', /--mem is not allowed; remove it/],
    ['a number of nodes that is not node_number', 'sbatch -N 3 run.sh', /node_number is 2; use node_number/],
    ['a time that is not runtime', 'sbatch --time=1-0 run.sh', /use runtime/],
    ['an open double quote', 'sbatch "run.sh', /quote/],
    ['an open single quote', "sbatch run.sh 'a", /quote/],
    ['no script', 'sbatch', /script/],
    ['options and no script', 'sbatch --nodes=1', /script/],
    ['an option that lacks its value', 'sbatch --nodes', /needs a value/],
    ['a short option that lacks its value', 'sbatch -N', /needs a value/],
    ['a script and a wrapped line', 'sbatch --wrap="echo hello" run.sh', /not both/],
    ['an empty script', 'sbatch ""', /script/],
    ['an empty wrapped line', 'sbatch --wrap=""', /wrap|empty/],
  ];
  for (const [name, command, says] of cases) {
    test(`rejects ${name}`, () => {
      assertFieldRejected('hpc_one', JSON.stringify({ command }), 'command', says);
    });
  }
});

describe('tool parameters', () => {
  const wrong: [string, string, unknown, RegExp][] = [
    ['a required one that is missing', 'steps', undefined, /required/],
    ['a number under its bound', 'steps', 0, /at least 1/],
    ['a number over its bound', 'steps', '101', /at most 100/],
    ['a number that is not whole', 'steps', 1.5, /whole number/],
    ['a number that is text', 'steps', 'many', /whole number/],
    ['a number that is empty', 'steps', '', /whole number/],
    ['a number that is null', 'steps', null, /whole number/],
    ['a number that is a list', 'steps', [1], /whole number/],
    ['a number with a command behind it', 'steps', '1; id', /whole number/],
    ['a fraction over its bound', 'ratio', '1.01', /at most 1/],
    ['a fraction beyond all numbers', 'ratio', '1e999', /number/],
    ['a word that is not on the list', 'mode', 'medium', /one of fast, slow/],
    ['a word that is on the list in another case', 'mode', 'FAST', /one of fast, slow/],
    ['a word that is empty', 'mode', '', /one of fast, slow/],
    ['a text that matches its pattern in part', 'label', 'abc1', /must match/],
    ['a text with a command in it', 'label', 'a$(id)', /must match/],
    ['a text with a NUL', 'label', 'a\0', /control characters/],
    ['a text with a line feed behind it', 'label', 'abc\n', /control characters/],
    ['a text that is an object', 'label', { a: 1 }, /must be a string/],
    ['a text of 2 kB', 'label', 'x'.repeat(2000), /1024 characters/],
    ['a parameter that the tool does not have', 'colour', 'blue', /use one of .*steps, ratio, mode, label/],
    ['the name of the language', 'constructor', 'x', /not a known field/],
  ];
  for (const [name, field, value, says] of wrong) {
    test(`rejects ${name}`, () => {
      assertFieldRejected('hpc_two', JSON.stringify({ tool: 'SOLVER', steps: 1, [field]: value }), field, says);
    });
  }
});
