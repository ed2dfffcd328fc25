import { assertNever, BursarError } from '../../domain/errors.ts';
import type { JobCommand } from '../../domain/jobs/job.ts';
import { quoteForBash } from '../../shell/quote.ts';
import type { EngineJob } from '../engine.ts';
import { duplicateStartSignal } from './slurm-job.ts';

/**
 * The batch script that Slurm runs: it sees to it that the job runs once and where it should, and ends as the job ends. It
 * also writes down how that was, because a controller that is killed can forget it: one that starts the job again is told
 * the same end, and of one that knows nothing of it any more Bursar need not be told. What the user brings is only ever
 * named in it: `#SBATCH` lines of theirs are inert.
 */
export function buildWrapperScript(job: EngineJob): string {
  const { directory } = job.workspace;
  const run = commandLines(job.command).map((line) => `  ${line}`);
  return `#!/bin/bash
# Written by Bursar.
umask 077
fail() { echo "bursar: $1" >&2; exit 1; }
# Ends as the job has ended: by the same code, or by the same signal.
finish() {
  trap - ${survived}
  ulimit -c 0
  case $1 in ${deadlyCodes}) kill -$(($1 - 128)) $$ ;; esac
  exit "$1"
}
directory=${quoteForBash(directory)}
# Slurm starts a job whose directory is not there in /tmp.
[ . -ef "$directory" ] || fail 'the job was not started in its own folder'
cd -- "$directory" || fail 'the folder of the job cannot be used'
# The second belt against a second run: making a folder succeeds once, on shared file systems too.
if ! mkdir -- "$directory.started"; then
  [ -d "$directory.started" ] || fail 'the folder that says that the job has begun cannot be made'
  echo 'bursar: the job has been started before, and runs only once' >&2
  code=
  { read -r code _ < "$directory.started/end"; } 2> /dev/null
  case $code in '' | *[!0-9]*) ;; *) finish "$code" ;; esac
  # That this is no fault of the job's, a signal of our own tells.
  kill -${duplicateStartSignal} $$
fi
mkdir -p -- "$directory.tmp" || fail 'the folder for temporary files cannot be made'
began=$(date +%s)
# Slurm signals all processes of a job. The job does with that what it likes; this one waits for it.
trap : ${survived}
(
  export HOME="$directory" TMPDIR="$directory.tmp" LANG=C.UTF-8
  export BURSAR_JOB_ID=${quoteForBash(job.jobId)}
  export BURSAR_NODES=${job.nodes} BURSAR_CORES_PER_NODE=${job.coresPerNode} BURSAR_RUNTIME_SECONDS=${job.runtimeSeconds}
  unset directory began conf
  unset -f fail finish
${run.join('\n')}
)
code=$?
echo "$code $began $(date +%s)" > "$directory.started/end.new" && mv -- "$directory.started/end.new" "$directory.started/end"
finish "$code"
`;
}

/** What Slurm may send, and other people: everything that can be outlived. */
const survived = 'HUP INT QUIT USR1 USR2 ALRM TERM XCPU XFSZ VTALRM PROF IO PWR';

/** A shell tells of a death by a signal by 128 and its number. Some signals kill nobody. */
const deadlyCodes = Array.from({ length: 31 }, (_, index) => index + 1)
  .filter((signal) => ![17, 18, 19, 20, 21, 22, 23, 28].includes(signal))
  .map((signal) => 128 + signal)
  .join('|');

function commandLines(command: JobCommand): string[] {
  switch (command.kind) {
    case 'line':
      return [`exec /bin/bash -c ${quoteForBash(command.line)}`];
    case 'script': {
      const script = quoteForBash(`./${command.script}`);
      return [`chmod u+x ${script}`, `exec ${quoteAll([`./${command.script}`, ...command.args])}`];
    }
    case 'argv':
      if (!command.argv[0]) throw new BursarError('job_refused', 'the command is empty');
      return [`exec -- ${quoteAll(command.argv)}`];
    default:
      return assertNever(command);
  }
}

const quoteAll = (argv: readonly string[]) => argv.map(quoteForBash).join(' ');
