import { assertNever, BursarError } from '../../domain/errors.ts';
import { maxRefusalSeconds, refusalExitCode } from '../../domain/jobs/end-record.ts';
import type { JobCommand } from '../../domain/jobs/job.ts';
import { type EngineJob, startDirectoryOf } from '../engine.ts';
import { type ArgumentGroup, isPrivateExpression, sandboxParts, systemPaths } from '../sandbox/arguments.ts';
import type { BatchIsolation } from './backend.ts';
import { readShellProgram, type ShellVariables, setVariables } from './shell-program.ts';

const wrapperProgram = readShellProgram('wrapper.sh', import.meta.url);
const isolateProgram = readShellProgram('isolate.sh', import.meta.url);

/**
 * The wrapper kills itself by one of these signals if it runs nothing. `duplicate_start`: the job ran before. They are real-time
 * signals, which programs do not use. A job that is not isolated could send them to its wrapper.
 */
export const wrapperSignals = { not_started: 46, duplicate_start: 47 } as const;

/** The part of the isolation that depends on the scheduler: functions that replace those of isolate.sh, and their variables. */
export interface SchedulerSteps {
  program: string;
  variables: ShellVariables;
}

/**
 * Builds the batch script of a job: variables, and the programs that use them. It refers to the user's script by name only, so
 * that directives in it have no effect. Throws `job_refused` if the command can never run.
 */
export function buildWrapper(job: EngineJob, isolation: BatchIsolation | null, steps?: SchedulerSteps): string {
  const { directory } = job.workspace;
  const variables = {
    directory,
    start_directory: startDirectoryOf(job),
    environment: [
      `HOME=${directory}`,
      `TMPDIR=${directory}.tmp`,
      'LANG=C.UTF-8',
      `BURSAR_JOB_ID=${job.jobId}`,
      `BURSAR_NODES=${job.nodes}`,
      `BURSAR_CORES_PER_NODE=${job.coresPerNode}`,
      `BURSAR_RUNTIME_SECONDS=${job.runtimeSeconds}`,
    ],
    script: job.command.kind === 'script' ? `./${job.command.script}` : '',
    command: toArgv(job.command),
    not_started_signal: wrapperSignals.not_started,
    duplicate_start_signal: wrapperSignals.duplicate_start,
    refusal_code: refusalExitCode,
    trapped_signals: trappedSignals,
    isolate: isolation !== null,
  };
  return [
    '#!/bin/bash\n# Written by Bursar.\n',
    setVariables(variables),
    ...(isolation === null ? [] : [setVariables(isolationVariables(job, isolation)), isolateProgram]),
    ...(steps === undefined ? [] : [setVariables(steps.variables), steps.program]),
    wrapperProgram,
  ].join('');
}

/** All signals that can be trapped and that a scheduler or a user may send. */
const trappedSignals = 'HUP INT QUIT USR1 USR2 ALRM TERM XCPU XFSZ VTALRM PROF IO PWR'.split(' ');

function isolationVariables(job: EngineJob, { required, readOnly, hidden, network }: BatchIsolation): ShellVariables {
  const { directory } = job.workspace;
  const { mounts, remounts } = sandboxParts({
    directory,
    temporaryFolder: `${directory}.tmp`,
    startDirectory: startDirectoryOf(job),
    readOnly,
    hidden,
    network,
  });
  return {
    mounts: toWords(mounts),
    remounts: toWords(remounts),
    readable: [...systemPaths, ...readOnly],
    hidden: hidden.map(({ path }) => path),
    private_files: isPrivateExpression.split(' '),
    isolation_required: required,
    max_attempts: 30,
    // A wrapper that gives up later than after `maxRefusalSeconds` is not believed: the job would be charged.
    max_retry_seconds: maxRefusalSeconds / 2,
  };
}

/** The arguments of `add_arguments`. Groups that hide nothing are joined: bash takes long for many of them. */
function toWords(groups: readonly ArgumentGroup[]): string[] {
  const joined: { hides: string; args: string[] }[] = [];
  for (const { hides = '', args } of groups) {
    const last = joined.at(-1);
    if (hides === '' && last?.hides === '') last.args.push(...args);
    else joined.push({ hides, args: [...args] });
  }
  return joined.flatMap(({ hides, args }) => [hides, String(args.length), ...args]);
}

function toArgv(command: JobCommand): string[] {
  switch (command.kind) {
    case 'line':
      return ['/bin/bash', '-c', command.line];
    case 'script':
      return [`./${command.script}`, ...command.args];
    case 'argv':
      if (!command.argv[0]) throw new BursarError('job_refused', 'the command is empty');
      return command.argv;
    default:
      return assertNever(command);
  }
}
