import { assertNever, BursarError } from '../../domain/errors.ts';
import { refusalExitCode } from '../../domain/jobs/end-record.ts';
import type { JobCommand } from '../../domain/jobs/job.ts';
import { quoteAllForBash, quoteForBash } from '../../shell/quote.ts';
import type { BatchIsolation as SlurmIsolation } from '../batch/resolve-isolation.ts';
import { type EngineJob, startDirectoryOf } from '../engine.ts';
import { maxAttempts, pauseOrBreakBash, trappedSignals } from './isolation.ts';
import { prepareIsolationBash } from './prepare-isolation.ts';
import { wrapperSignals } from './slurm-job.ts';
import { requestFolder } from './srun-program.ts';

/**
 * Builds the wrapper, the batch script that Slurm runs. It ensures that the job runs once, in its own directory, and exits as the job
 * exits. It also writes an end record, because a controller that is killed can forget a job: a second start exits with
 * the recorded code, and Bursar reads the record if Slurm no longer reports the job. The wrapper refers to the user's
 * script by name only, so that `#SBATCH` lines in it have no effect.
 */
export function buildWrapperScript(job: EngineJob, isolation: SlurmIsolation | null): string {
  const { directory } = job.workspace;
  const environment = environmentLines(job, isolation);
  const command = commandLines(job.command);
  const startDirectory = quoteForBash(startDirectoryOf(job));
  return `#!/bin/bash
# Written by Bursar.
umask 077
# Before the start record: the signal tells Bursar that nothing of the job ran.
not_started() {
  printf 'bursar: %s\\n' "the job was not started: $1" "\${@:2}" >&2
  kill -${wrapperSignals.not_started} $$
}
folder_failed() { not_started "$1" "check that the folder of the workspaces is mounted on $HOSTNAME, writable, and not full"; }
# Ends as the job ended: with the same code, or by the same signal.
finish() {
  trap - ${trappedSignals}
  ulimit -c 0
  case $1 in ${fatalSignalCodes}) kill -$(($1 - 128)) $$ ;; esac
  exit "$1"
}
directory=${quoteForBash(directory)}
# Slurm starts a job in /tmp if its directory does not exist.
[ . -ef "$directory" ] || folder_failed 'Slurm did not start it in its own folder'
cd -- "$directory" || folder_failed 'its folder cannot be entered'
[ -e "$directory.started" ] || mkdir -p -- "$directory.tmp" ||
  folder_failed 'its folder for temporary files cannot be created'
${isolation === null ? '' : prepareIsolationBash(job, isolation, environment)}# Prevents a second run: mkdir succeeds only once, on shared file systems too.
if ! mkdir -- "$directory.started"; then
  [ ! -L "$directory.started" ] || not_started 'it had ended before' 'submit it again to run it'
  [ -d "$directory.started" ] || folder_failed 'its start record cannot be created'
  echo 'bursar: the job was started before; it runs only once' >&2
  code=
  { read -r code _ < "$directory.started/end"; } 2> /dev/null
  case $code in '' | *[!0-9]*) ;; *) finish "$code" ;; esac
  # This signal tells Bursar that the job itself did not fail.
  kill -${wrapperSignals.duplicate_start} $$
fi
started=$(date +%s)
# Slurm signals all processes of a job. The wrapper ignores signals and waits for the job.
trap : ${trappedSignals}
terminated=
trap 'terminated=yes' TERM
${servesSteps(isolation) ? startServerBash : ''}${isolation === null ? '' : startLoopBash}(
${environment}
${isolation === null ? '' : isolatedStart(startDirectory, command)}${isolation?.required ? '' : plainStart(startDirectory, command)}
)
code=$?
${isolation === null ? '' : endLoopBash(isolation)}record_end() {
  echo "$code $started $(date +%s)" > "$directory.started/end.new" && mv -T -- "$directory.started/end.new" "$directory.started/end"
}
if ! record_end; then
  # Without an end record, exit code ${refusalExitCode} would mean that the node refused the job.
  [ "$code" != ${refusalExitCode} ] || code=2
  echo "bursar: the end record cannot be written; the exit code is $code" >&2
fi
${servesSteps(isolation) ? stopServerBash : ''}# Never 0 after SIGTERM: an exit code of 0 at the time limit means that the node did not report the end.
[ "$code" = 0 ] && [ -n "$terminated" ] && code=143
finish "$code"
`;
}

/** Starts an isolated job again if nothing of it ran. */
const startLoopBash = `status=$directory.started/status
for attempt in {1..${maxAttempts}}; do
`;
const endLoopBash = (isolation: SlurmIsolation) => `begun=yes
[ -n "$isolated" ] && [ -z "$terminated" ] && has_not_begun "$code" || break
begun=
${pauseOrBreakBash}
done
rm -f -- "$status"
if [ -z "$begun" ]; then
${servesSteps(isolation) ? stopServerBash : ''}not_started "bubblewrap failed on $HOSTNAME" 'the doctor tries the isolation on a node'
fi
`;

const servesSteps = (isolation: SlurmIsolation | null) => isolation !== null && !isolation.scheduler;

/** A process group of its own, so that all of it can be ended. */
const startServerBash = `server=
if [ -n "$isolated" ]; then
  set -m
  serve_steps 2> /dev/null &
  server=$!
  disown
  set +m
fi
`;
const stopServerBash = `[ -z "$server" ] || kill -KILL -- "-$server"
rm -rf -- "$steps" "$shared" 2> /dev/null
`;

/** The variables of the job, beside those that Slurm sets. */
function environmentLines(job: EngineJob, isolation: SlurmIsolation | null): string {
  const lines = [
    'export HOME="$directory" TMPDIR="$directory.tmp" LANG=C.UTF-8',
    `export BURSAR_JOB_ID=${quoteForBash(job.jobId)}`,
    `export BURSAR_NODES=${job.nodes} BURSAR_CORES_PER_NODE=${job.coresPerNode} BURSAR_RUNTIME_SECONDS=${job.runtimeSeconds}`,
    ...(servesSteps(isolation) ? [`[ -z "$isolated" ] || export PATH="${requestFolder}/bin:$PATH"`] : []),
  ];
  return lines.map((line) => `  ${line}`).join('\n');
}

function plainStart(directory: string, command: readonly string[]): string {
  const lines = [
    `cd -- ${directory} || { echo 'bursar: the folder that the job starts in cannot be entered' >&2; exit 1; }`,
    'unset directory started terminated',
    'unset -f not_started folder_failed finish',
    ...command,
  ];
  return lines.map((line) => `  ${line}`).join('\n');
}

/** A job that can be isolated must not run without isolation, also if bubblewrap cannot be started. */
const isolatedStart = (directory: string, command: readonly string[]) =>
  `  [ -z "$isolated" ] || { run_isolated ${directory} /bin/bash -c ${quoteForBash(command.join('\n'))}; exit 1; }
`;

/** Shell exit codes (128 plus the number) of all signals that kill by default: not CHLD CONT STOP TSTP TTIN TTOU URG WINCH. */
const fatalSignalCodes = Array.from({ length: 31 }, (_, index) => index + 1)
  .filter((signal) => ![17, 18, 19, 20, 21, 22, 23, 28].includes(signal))
  .map((signal) => 128 + signal)
  .join('|');

function commandLines(command: JobCommand): string[] {
  switch (command.kind) {
    case 'line':
      return [`exec /bin/bash -c ${quoteForBash(command.line)}`];
    case 'script': {
      const script = quoteForBash(`./${command.script}`);
      return [`chmod u+x ${script}`, `exec ${quoteAllForBash([`./${command.script}`, ...command.args])}`];
    }
    case 'argv':
      if (!command.argv[0]) throw new BursarError('job_refused', 'the command is empty');
      return [`exec -- ${quoteAllForBash(command.argv)}`];
    default:
      return assertNever(command);
  }
}
