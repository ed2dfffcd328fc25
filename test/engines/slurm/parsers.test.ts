import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { requireController } from '../../../src/engines/slurm/checks.ts';
import { toObservation } from '../../../src/engines/slurm/observation.ts';
import { parseSacct, sacctCommand } from '../../../src/engines/slurm/sacct.ts';
import { parseSubmittedJobId } from '../../../src/engines/slurm/sbatch.ts';
import { parseElapsed } from '../../../src/engines/slurm/slurm-job.ts';
import { parseSqueue } from '../../../src/engines/slurm/squeue.ts';
import { quoteForBash } from '../../../src/shell/quote.ts';

const id = '6B2D1F1E-8C65-4A0B-9A0E-1C5A0E6A7B11';
const at = 1_794_712_926;

/** Observes a row: `State|Reason|exit_code|StartTime|EndTime|NodeList|NumNodes|NumCPUs`. */
function observeRow(row: string, used = '0:00') {
  const [job] = parseSqueue(`${used}|7|${row}|${id}|\n`);
  assert.ok(job !== undefined);
  const unknown = { jobId: id, ref: '7', engineMessage: '', kind: null };
  const { jobId: _jobId, ref: _ref, engineMessage: _engineMessage, ...rest } = toObservation(job, 1) ?? unknown;
  return rest;
}

describe('parseSqueue and toObservation', () => {
  test('map pending and running states, and ignore unknown ones', () => {
    assert.deepEqual(observeRow('PENDING|JobHeldUser|0|N/A|N/A||1|1'), { kind: 'queued', held: true });
    assert.deepEqual(observeRow('PENDING|JobHeldAdmin|0|N/A|N/A||1|1'), { kind: 'queued', held: false });
    assert.deepEqual(observeRow('PENDING|Resources|0|N/A|N/A||1|1'), { kind: 'queued', held: false });
    assert.deepEqual(observeRow(`CONFIGURING|None|0|${at}|NONE|n1|1|1`), { kind: 'queued', held: false });
    const running = { kind: 'running', startedAt: at * 1000, allocation: { nodes: 1, cores: 4 } };
    for (const [state, isEnding] of [
      ['RUNNING', false],
      ['COMPLETING', true],
      ['SUSPENDED', false],
    ] as const)
      assert.deepEqual(observeRow(`${state}|None|0|${at}|NONE|n1|1|4`), { ...running, isEnding });
    assert.deepEqual(observeRow(`EXPEDITING|None|0|${at}|NONE|n1|1|1`), { kind: null });
  });

  test('report the state and reason of Slurm', () => {
    const messages = (row: string) =>
      parseSqueue(`0:02|7|${row}|${id}|\n`).map((job) => toObservation(job, 1)?.engineMessage);
    assert.deepEqual(messages('PENDING|Resources|0|N/A|N/A||1|1'), ['PENDING, Resources']);
    assert.deepEqual(messages(`RUNNING|None|0|${at}|NONE|n1|1|1`), ['RUNNING']);
    assert.deepEqual(messages(`TIMEOUT|TimeLimit|15|${at}|${at}|n1|1|1`), ['TIMEOUT, TimeLimit']);
  });

  test('map the final states of jobs that ran, with the exit of every version of Slurm', () => {
    // A wait(2) status before Slurm 23.02, code and signal since then.
    const rows: [string, string, string, number | null][] = [
      ['COMPLETED|None|0', 'succeeded', 'exit code 0', 0],
      ['COMPLETED|None|0:0', 'succeeded', 'exit code 0', 0],
      ['FAILED|NonZeroExitCode|768', 'failed', 'exit code 3', 3],
      ['FAILED|NonZeroExitCode|3:0', 'failed', 'exit code 3', 3],
      ['FAILED|NonZeroExitCode|256', 'failed', 'exit code 1', 1],
      ['FAILED|NonZeroExitCode|1:0', 'failed', 'exit code 1', 1],
      ['FAILED|NonZeroExitCode|32512', 'failed', 'command not found (exit code 127): stderr says which', 127],
      ['FAILED|NonZeroExitCode|127:0', 'failed', 'command not found (exit code 127): stderr says which', 127],
      ['FAILED|JobLaunchFailure|11', 'failed', 'killed by SIGSEGV', null],
      ['FAILED|JobLaunchFailure|139', 'failed', 'killed by SIGSEGV', null],
      ['FAILED|RaisedSignal:11(Segmentation fault)|0:11', 'failed', 'killed by SIGSEGV', null],
      ['TIMEOUT|TimeLimit|0:15', 'timed_out', 'time limit reached (TIMEOUT, TimeLimit)', null],
      ['CANCELLED|None|0:15', 'cancelled', 'cancelled (CANCELLED)', null],
      ['NODE_FAIL|NodeDown|0:0', 'node_failed', 'a node of the job failed (NODE_FAIL, NodeDown)', null],
      [
        'OUT_OF_MEMORY|OutOfMemory|0:125',
        'out_of_memory',
        'more memory used than allocated (OUT_OF_MEMORY, OutOfMemory)',
        null,
      ],
      ['TIMEOUT|TimeLimit|15', 'timed_out', 'time limit reached (TIMEOUT, TimeLimit)', null],
      ['DEADLINE|None|0', 'timed_out', 'deadline reached, a limit set by the site (DEADLINE)', null],
      ['CANCELLED|None|15', 'cancelled', 'cancelled (CANCELLED)', null],
      ['NODE_FAIL|NodeDown|0', 'node_failed', 'a node of the job failed (NODE_FAIL, NodeDown)', null],
      [
        'OUT_OF_MEMORY|OutOfMemory|253',
        'out_of_memory',
        'more memory used than allocated (OUT_OF_MEMORY, OutOfMemory)',
        null,
      ],
      ['PREEMPTED|None|15', 'preempted', 'preempted by another job (PREEMPTED)', null],
      ['REVOKED|None|0', 'lost', 'revoked: another cluster of the federation runs the job (REVOKED)', null],
    ];
    const usage = {
      startedAt: at * 1000,
      endedAt: (at + 3723) * 1000,
      elapsedSeconds: 3723,
      allocation: { nodes: 2, cores: 6 },
    };
    for (const [row, outcome, reason, exitCode] of rows) {
      const end = observeRow(`${row}|${at}|${at + 3723}|n[1-2]|2|6`, '1:02:03');
      assert.deepEqual(end, { kind: 'finished', outcome, reason, exitCode, ...usage });
    }
  });

  test('report no usage for jobs that never ran', () => {
    const unused = { exitCode: null, startedAt: null, endedAt: at * 1000, elapsedSeconds: 0 };
    assert.deepEqual(observeRow(`CANCELLED|JobHeldUser|0|${at}|${at}||1|1`), {
      kind: 'finished',
      outcome: 'cancelled',
      reason: 'cancelled (CANCELLED, JobHeldUser)',
      ...unused,
    });
    for (const failure of ['JobLaunchFailure|4021', 'RaisedSignal:53(Real-time signal 19)|0:53']) {
      assert.deepEqual(observeRow(`FAILED|${failure}|${at}|${at}|n1|1|1`), {
        kind: 'finished',
        outcome: 'node_failed',
        reason: `Slurm could not start the job (FAILED, ${failure.split('|')[0]})`,
        ...unused,
      });
    }
  });

  test('believe soon after the start only that nothing ran, because a job could send the same signals', () => {
    for (const [exit, signal] of [
      ['46', 46],
      ['47', 47],
      ['0:46', 46],
      ['0:47', 47],
      ['0:53', 53],
    ] as const) {
      const row = `FAILED|JobLaunchFailure|${exit}|${at}|${at + 60}|n1|1|1`;
      const { outcome, startedAt } = { outcome: null, startedAt: 0, ...observeRow(row, '1:00') };
      assert.deepEqual([outcome, startedAt], ['node_failed', null]);
      assert.deepEqual(observeRow(row, '1:01'), {
        kind: 'finished',
        ...{ outcome: 'failed', reason: `killed by signal ${signal}`, exitCode: null },
        ...{ startedAt: at * 1000, endedAt: (at + 60) * 1000, elapsedSeconds: 61, allocation: { nodes: 1, cores: 1 } },
      });
    }
  });

  test('believe at any time what no signal can look like', () => {
    const describe = (exit: string, used: string) => {
      const end = observeRow(`FAILED|JobLaunchFailure|${exit}|${at}|${at + 61}|n1|1|1`, used);
      return end.kind === 'finished' && [end.outcome, end.startedAt === null];
    };
    // A wait status has a code beside the signal only if it is an error number of Slurm.
    assert.deepEqual(describe('4021', '1:01'), ['node_failed', true]);
    assert.deepEqual(describe('53', '0:02'), ['failed', false]);
  });

  test('leave it to the start record whether a cancelled job ran: a node that refuses a job looks like a launch failure', () => {
    for (const exit of ['0:54', '4022', '46', '0:46']) {
      const end = observeRow(`CANCELLED|None|${exit}|${at}|${at}|n1|1|1`);
      assert.deepEqual(end.kind === 'finished' && [end.outcome, end.startedAt], ['cancelled', at * 1000], exit);
    }
  });

  test('notice that no node reported the exit of a job at its time limit', () => {
    const isExitMissing = (exit: string) =>
      parseSqueue(`1:00|7|TIMEOUT|TimeLimit|${exit}|${at}|${at}|n1|1|1|${id}|`).map((job) => job.isExitMissing);
    assert.deepEqual(['0', '0:0', '15', '0:15', '36608', '143:0'].flatMap(isExitMissing), [
      ...[true, true],
      ...[false, false, false, false],
    ]);
  });

  test('throw for an exit in an unknown format, which must not count as exit code 0', () => {
    for (const exit of ['', 'SIGKILL', '0x35', '1:2:3', '-1'])
      assert.throws(
        () => observeRow(`FAILED|None|${exit}|${at}|${at}|n1|1|1`),
        { code: 'unavailable', transient: true, message: /exit code of job 7/ },
        exit,
      );
  });

  test('accept job names with separators, and skip lines that are not jobs', () => {
    const row = `FAILED|None|0|${at}|${at}|n1|1|1`;
    const names = parseSqueue(`0:00|3|${row}|a|b,c|\nslurm_load_jobs: hm\n\n0:00|5_2|${row}|array|\n0:00|4|${row}|d|`);
    assert.deepEqual(
      names.map(({ ref, name }) => [ref, name]),
      [
        ['3', 'a|b,c'],
        ['4', 'd'],
      ],
    );
  });

  test('parseElapsed reads minutes, hours and days', () => {
    assert.deepEqual(['0:02', '1:02:03', '4-01:02:03', 'INVALID'].map(parseElapsed), [2, 3723, 349_323, 0]);
  });
});

test('parseSacct reads outcomes, reasons and elapsed times', () => {
  const rows = [
    `1|FAILED|3:0|${at}|${at + 2}|2|n1|1|1|${id}`,
    `2|CANCELLED by 0|0:0|${at}|${at}|0|None assigned|1|0|${id}`,
    `5|FAILED|0:53|${at}|${at}|0|n1|1|1|${id}`,
    `6|OUT_OF_MEMORY|0:125|${at}|${at + 2}|2|n1|1|1|${id}`,
    `7|FAILED|0:53|${at}|${at + 60}|60|n1|1|1|${id}`,
    `8|FAILED|0:53|${at}|${at + 70}|70|n1|1|1|${id}`,
    `9|FAILED||${at}|${at + 2}|2|n1|1|1|${id}`,
  ];
  const ends = parseSacct(rows.join('\n')).map((job) => toObservation(job, 1));
  const summaries = ends.map((end) => end?.kind === 'finished' && [end.outcome, end.reason, end.elapsedSeconds]);
  assert.deepEqual(summaries, [
    ['failed', 'exit code 3', 2],
    ['cancelled', 'cancelled (CANCELLED by 0)', 0],
    ['node_failed', 'Slurm could not start the job (FAILED)', 0],
    ['out_of_memory', 'more memory used than allocated (OUT_OF_MEMORY)', 2],
    ['node_failed', 'Slurm could not start the job (FAILED)', 0],
    // A job that has sent the signal to its wrapper.
    ['failed', 'killed by signal 53', 70],
  ]);
  assert.ok(sacctCommand(['1', '2'], 'sacct').argv.includes('1,2'));
});

describe('parseSubmittedJobId', () => {
  const failing =
    (text: string, code: number | null = 1) =>
    () =>
      parseSubmittedJobId({ code, stdout: '', stderr: `sbatch: error: ${text}\n` });

  test('reads the job id, with and without a cluster name', () => {
    assert.equal(parseSubmittedJobId({ code: 0, stdout: '17\n', stderr: '' }), '17');
    assert.equal(parseSubmittedJobId({ code: 0, stdout: 'a notice of the site\n17;alps\n', stderr: '' }), '17');
  });

  const policy =
    "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)";

  test('throws job_refused for a job that Slurm can never run', () => {
    const refusals = [
      'Batch job submission failed: Requested node configuration is not available',
      'Batch job submission failed: Node count specification invalid',
      'Batch job submission failed: More processors requested than permitted',
      'Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)',
      ...[
        'QOSMaxCpuPerJobLimit',
        'QOSMaxWallDurationPerJobLimit',
        'AssocMaxNodePerJobLimit',
        'QOSMinCpuNotSatisfied',
      ].map((limit) => `${limit}\nsbatch: error: ${policy}`),
    ];
    for (const text of refusals) assert.throws(failing(text), { code: 'job_refused', transient: false }, text);
  });

  test('throws invalid_config for options that only operators set, so that the job waits for their repair', () => {
    const refusals = [
      'Batch job submission failed: Invalid account or account/partition combination specified',
      'Batch job submission failed: Invalid qos specification',
      'invalid partition specified: nope\nsbatch: error: Batch job submission failed: Invalid partition name specified',
      'Batch job submission failed: Access/permission denied',
      'Invalid --time specification',
    ];
    for (const text of refusals) assert.throws(failing(text), { code: 'invalid_config', transient: false }, text);
    const unknown = 'sbatch: unrecognized option \'--nonsense\'\nTry "sbatch --help" for more information\n';
    const message = /\(sbatch: unrecognized option '--nonsense'\)\. Contact the operators/;
    assert.throws(() => parseSubmittedJobId({ code: 255, stdout: '', stderr: unknown }), {
      code: 'invalid_config',
      message,
    });
  });

  test('throws a transient error for every other failure', () => {
    // Most of them are the words of sbatch beside a controller that is killed.
    const failures = [
      ...[
        'Socket timed out on send/recv operation',
        'Unable to contact slurm controller (connect failure)',
        'Zero Bytes were transmitted or received',
        'Unexpected message received',
        'Resource temporarily unavailable',
        'Unexpected missing socket error',
        'Connection reset by peer',
        'Transport endpoint is not connected',
        'Message send failure',
        'Message receive failure',
        'Insane message length',
        'Header lengths are longer than data received',
        'Read would block',
        'Write would block',
        'Unable to process incoming file descriptor',
        'Unspecified error',
        'Rate limit exceeded, please retry momentarily',
        'System submissions disabled',
        'Required partition not available (inactive or drain)',
        'Requested partition configuration not available now',
        'Slurm backup controller in standby mode',
        'Incompatible versions of client and server code',
        'Error generating job credential',
        'I/O error writing script/environment to file',
        'a message of a version to come',
      ].map((text) => `Batch job submission failed: ${text}`),
      policy,
      'something that nobody has ever seen',
    ];
    for (const text of failures) assert.throws(failing(text), { code: 'unavailable', transient: true }, text);
    assert.throws(failing('', null), { code: 'unavailable' });
    for (const limit of ['AssocMaxSubmitJobLimit', 'QOSMaxSubmitJobPerUserLimit', 'AssocGrpSubmitJobsLimit']) {
      assert.throws(failing(`${limit}\nsbatch: error: ${policy}`), { code: 'queue_full', transient: true }, limit);
    }
  });

  test('reports what a plugin of the site said, beside the message of Slurm', () => {
    const text = 'Please set a project code\nsbatch: error: Batch job submission failed: Unspecified error';
    assert.throws(failing(text), { message: /\(sbatch: Unspecified error \(Please set a project code\)\)$/ });
  });
});

test('requireController reports the first controller that is up', () => {
  const ping = (stdout: string, code = 0) => requireController({ code, stdout, stderr: '' });
  assert.equal(ping('Slurmctld(primary) at vm is UP\n'), 'slurmctld on vm (primary) is up');
  const backup = 'Slurmctld(primary) at a is DOWN\nSlurmctld(backup) at b is UP\n';
  assert.equal(ping(backup), 'slurmctld on b (backup) is up');
  assert.throws(() => ping('Slurmctld(primary) at a is DOWN\n', 1), { message: 'slurmctld on a is down' });
  assert.throws(() => ping('', 1), { message: 'exit code 1' });
});

test('quoteForBash keeps every character, on one line', () => {
  const words = [
    'two words',
    '',
    '$HOME `id`',
    "it's",
    '"q"',
    '\\',
    '\\n',
    'a\nb\r\n\tc',
    'ü€😀',
    '\x7f\x1b7',
    '!x',
    '#SBATCH',
  ];
  const quoted = words.map(quoteForBash).join(' ');
  assert.doesNotMatch(quoted, /[\r\n]/);
  const printed = execFileSync('bash', ['-c', `printf '%s\\0' ${quoted}`], { encoding: 'utf8' });
  assert.deepEqual(printed.split('\0').slice(0, -1), words);
  assert.throws(() => quoteForBash('a\0b'), { code: 'job_refused' });
});
