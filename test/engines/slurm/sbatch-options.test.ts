import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { sbatchLanguage } from '../../../src/engines/slurm/sbatch-language.ts';

const job = { title: 'my job', nodes: 2, coresPerNode: 6, runtimeHours: 1.5 };
const repetitions = [
  ...['--nodes=2', '-N 2', '-N02', '--ntasks=12', '-n12', '--ntasks-per-node=6', '-c 1', '--cpus-per-task=1'],
  ...['--time=90', '-t 90:00', '-t 1:30:00', '-t 0-1:30', '-t 00-01:30:00', '-J "my job"', '--parsable'],
];
const contradictions: [string, RegExp][] = [
  ['--nodes=4', /--nodes=4 contradicts the Payload: node_number is 2; use node_number instead$/],
  ['-N 1-2', /--nodes=1-2 contradicts .* node_number is 2/],
  ['--nodes=', /--nodes= contradicts/],
  ['--nodes=2k', /--nodes=2k contradicts/],
  ['--ntasks=4', /--ntasks=4 contradicts .* node_number × core_number is 12; use node_number and core_number instead$/],
  ['-n 6', /--ntasks=6 contradicts/],
  ['--ntasks-per-node=2', /core_number is 6; use core_number instead$/],
  ['-c 6', /--cpus-per-task=6 contradicts .* use core_number, and srun --cpus-per-task in the script instead/],
  ['--time=60', /--time=60 contradicts .* the runtime is 1\.5 hours; use runtime instead$/],
  ['-t 1:30', /--time=1:30 contradicts/],
  ['-t 1-0', /--time=1-0 contradicts/],
  ['-t 1:30:01', /contradicts/],
  ['-t INFINITE', /contradicts/],
  ['-J other', /--job-name=other contradicts .* the title is "my job"; use title instead$/],
];

describe('sbatchLanguage.parse: options that contradict the job', () => {
  const find = (options: string) => {
    const parsed = sbatchLanguage.parse(`sbatch ${options} run.sh`, job);
    return parsed.ok ? null : parsed.error;
  };

  test('accepts options that say what the Payload says', () => {
    for (const option of repetitions) assert.equal(find(option), null, option);
    assert.equal(find('-N2 --ntasks=12 --time=1:30:00'), null);
  });

  test('says what the Payload says, and which field to set', () => {
    for (const [option, pattern] of contradictions) assert.match(find(option) ?? '', pattern, option);
    assert.match(find('-N2 --ntasks=12 --ntasks=4') ?? '', /--ntasks=4/);
  });

  test('reads every form of a time limit as sbatch does', () => {
    for (const [text, runtimeHours] of [
      ['5', 5 / 60],
      ['5:30', 330 / 3600],
      ['2:05:30', 7530 / 3600],
      ['1-2', 26],
      ['1-2:30', 26.5],
      ['1-2:30:36', 26.51],
      ['20', 0.33333],
    ] as const) {
      const parseWith = (hours: number) =>
        sbatchLanguage.parse(`sbatch -t ${text} run.sh`, { ...job, runtimeHours: hours });
      assert.ok(parseWith(runtimeHours).ok, text);
      const longer = parseWith(runtimeHours + 0.01);
      assert.match(longer.ok ? '' : longer.error, /--time/, text);
    }
  });
});

describe('sbatchLanguage.findDirectiveError', () => {
  const validate = (text: string, hasMore = false) => sbatchLanguage.findDirectiveError(text, job, hasMore);

  test('accepts in a script what the command may say, and nothing else', () => {
    for (const option of repetitions) assert.equal(validate(`#!/bin/sh\n#SBATCH ${option}\ntrue\n`), null, option);
    for (const [option, pattern] of contradictions) {
      assert.match(validate(`#!/bin/sh\n#SBATCH ${option}\ntrue\n`) ?? '', pattern, option);
    }
    assert.match(validate('#SBATCH --mem=50\n') ?? '', /--mem is not allowed; remove it/);
    assert.match(validate('#SBATCH --uid=0\n') ?? '', /--uid is not allowed; allowed are nodes/);
    assert.match(validate('#SBATCH --wrap=hostname\n') ?? '', /--wrap is not allowed in a script/);
    assert.match(validate('#SBATCH -N2 run.sh\n') ?? '', /contains "run\.sh", which is not an option/);
    assert.match(validate('#SBATCH -J "my job\n') ?? '', /unclosed quote/);
  });

  test('reads the lines that sbatch reads', () => {
    const rejects = (text: string) => assert.match(validate(text) ?? '', /--nodes=4 contradicts/, text);
    rejects('#SBATCH --nodes=4');
    rejects('#!/bin/sh\r\n\r\n#SBATCH --nodes=4\r\n');
    rejects('#!/bin/sh\n  # a comment\n\t\n#SBATCH --nodes=4\n');
    rejects('#SBATCH--nodes=4\n');
    rejects('#SBATCH -N 2 # two\n#SBATCH -N 4 # four\n');
    for (const text of [
      '#!/bin/sh\ntrue\n#SBATCH --nodes=4\n',
      ' #SBATCH --nodes=4\n',
      '##SBATCH --nodes=4\n',
      '#SBATCH # --nodes=4\n',
      '#SBATCH --nodes=2 #--nodes=4 "\n',
      '#SBATCH -J "my job"#4\n',
      '#sbatch --nodes=4\n',
      '',
    ])
      assert.equal(validate(text), null, text);
  });

  test('rejects a text whose directives may continue in the part that is not read', () => {
    assert.match(validate(`#!/bin/sh\n${'# text\n'.repeat(100)}`, true) ?? '', /no command follows/);
    assert.equal(validate('#!/bin/sh\ntrue\n# text', true), null);
  });

  test('takes time in proportion to the length of a line', () => {
    // With a quadratic pattern this would take hours.
    const blanks = ' '.repeat(1_000_000);
    assert.equal(validate(`#SBATCH${blanks}\n#SBATCH --nodes=2${blanks}#${blanks}\n${blanks}\ntrue`), null);
    assert.match(validate(`#SBATCH${blanks}x`) ?? '', /which is not an option/);
  });
});
