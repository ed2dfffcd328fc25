import { quoteAllForBash, quoteForBash } from '../../shell/quote.ts';
import { type EngineJob, startDirectoryOf } from '../engine.ts';
import { type HiddenPath, sandboxParts } from '../sandbox/arguments.ts';
import { serveStepsBash } from './serve-steps.ts';
import { isolationFailedSignal } from './slurm-job.ts';
import { replacedCommands, requestFolder, srunProgram } from './srun-program.ts';

/** How the jobs of a Slurm system are isolated. */
export interface SlurmIsolation {
  /** Whether a job that cannot be isolated on its node fails. Otherwise it runs without isolation. */
  required: boolean;
  /** Further paths that jobs can read. */
  readOnly: readonly string[];
  /** Paths that jobs must not see, although they may be inside of a path that jobs can read. */
  hidden: readonly HiddenPath[];
  network: boolean;
  /** Whether jobs reach munge and Slurm. They can leave their isolation then: slurmd starts tasks outside of it. */
  scheduler: boolean;
}

/** All signals that can be trapped and that Slurm or a user may send. */
export const trappedSignals = 'HUP INT QUIT USR1 USR2 ALRM TERM XCPU XFSZ VTALRM PROF IO PWR';

/**
 * Bash that prepares the isolation of a job on the node of the batch script, and sets `isolated` if it works there. If isolation
 * is required, it never falls back to none: a job could make bubblewrap fail for other jobs of the account on its node.
 */
export function prepareIsolationBash(job: EngineJob, isolation: SlurmIsolation, environment: string): string {
  const { required, readOnly, scheduler } = isolation;
  return `
steps=$directory.steps shared=${sharedMemoryFolder(job)}
${sandboxBash(job, isolation, 'batch')}
isolated=
if [ ! -e "$directory.started" ]; then
  mkdir -p -- "$directory.tmp" || fail 'the folder for temporary files cannot be created'
${scheduler ? '' : `  if type -P bwrap > /dev/null; then${writeStepFilesBash(job, isolation, environment)}  fi\n`}  problem= advice='install bubblewrap on all nodes and allow user namespaces there, or set isolation: none'
${readOnly.length === 0 ? '' : checkHiddenBash(isolation)}  # The same sandbox as that of the job: a failure is not the job's.
  [ -z "$problem" ] && problem=$(bwrap "\${sandbox[@]}" --chdir "$directory" -- true 2>&1) && isolated=yes
${required ? stopUnlessIsolatedBash : ''}fi
${scheduler ? '' : serveStepsBash}`;
}

/** The signal tells Bursar that nothing of the job ran. */
const stopUnlessIsolatedBash = `  if [ -z "$isolated" ]; then
    echo "bursar: the job was not started, because it cannot be isolated on $(hostname): $problem" >&2
    echo "bursar: $advice" >&2
    rm -rf -- "$steps"
    kill -${isolationFailedSignal} $$
  fi
`;

/**
 * Only the node knows the home folder of the account, which holds its keys, and the real names of folders. Sets `problem` if
 * the home or a hidden path can be read in a folder of `readOnly`, under any name that is not itself hidden.
 */
function checkHiddenBash({ hidden, readOnly }: SlurmIsolation): string {
  const list = (paths: readonly string[]) => paths.map(quoteForBash).join(' ');
  const hiddenPaths = hidden.map(({ path }) => path);
  const isHidden = hiddenPaths.map((path) => `${quoteForBash(path)}/*`).join('|');
  return `  visible=(${list(readOnly)}) secret=("$(unset HOME; echo ~)" ${list(hiddenPaths)})
  mapfile -d '' -t visible_names < <(realpath -zm -- "\${visible[@]}")
  mapfile -d '' -t secret_names < <(realpath -zm -- "\${secret[@]}")
  for i in "\${!secret[@]}"; do
    for j in "\${!visible[@]}"; do
      for name in "\${secret[i]}" "\${secret_names[i]}"; do
        for folder in "\${visible[j]}" "\${visible_names[j]}"; do
          case $name/ in "$folder"/*) shown=\${visible[j]}\${name#"$folder"} ;; *) continue ;; esac
          case $shown/ in
            ${isHidden === '' ? '' : `${isHidden}) ;;`}
            *) advice='list folders in readOnly that do not contain it' problem="jobs could read \${secret[i]} as $shown, inside of a folder that readOnly lists" ;;
          esac
        done
      done
    done
  done
`;
}

/** Writes the programs and the FIFO of `srun`, with few processes. No program contains the line that ends it. */
const writeStepFilesBash = (job: EngineJob, isolation: SlurmIsolation, environment: string) => `
  mkdir -p -- "$steps/bin" || fail 'the folder of srun cannot be created'
  IFS= read -r -d '' program << 'END-OF-PROGRAM'
${srunProgram}END-OF-PROGRAM
  for name in ${replacedCommands.join(' ')}; do printf %s "$program" > "$steps/bin/$name" || fail 'srun cannot be prepared'; done
  IFS= read -r -d '' program << 'END-OF-PROGRAM'
${taskProgram(job, isolation, environment)}END-OF-PROGRAM
  printf %s "$program" > "$steps/task" && chmod u+x -- "$steps/bin"/* && { [ -p "$steps/requests" ] || mkfifo -- "$steps/requests"; } ||
    fail 'srun cannot be prepared'
`;

/** Runs a task of `srun` in a sandbox of its own. The argument is the folder of the request. */
const taskProgram = (job: EngineJob, isolation: SlurmIsolation, environment: string) => `
directory=${quoteForBash(job.workspace.directory)}
steps=$directory.steps
isolated=yes
${sandboxBash(job, isolation, 'task')}
words=()
while IFS= read -r -d '' word; do words+=("$word"); done < "$1/command"
index=1
while [ "$index" -lt "\${#words[@]}" ] && [ "\${words[index]}" != -- ]; do
  case \${words[index]} in ?*=*) sandbox+=(--setenv "\${words[index]%%=*}" "\${words[index]#*=}") ;; esac
  index=$((index + 1))
done
${shareMemoryBash(job)}trap : ${trappedSignals}
(
${environment}
  run_isolated "\${words[0]}" "\${words[@]:index + 1}"
)
code=$?
[ -z "$shared" ] || ! flock -x -n "$lock" || rm -rf -- "$shared"
exit "$code"
`;

/**
 * Tasks of a job on one node have one /dev/shm, through which MPI exchanges messages. Each task holds a lock on it, and the
 * last one removes it. If the tasks were killed, the wrapper does so on its own node, and the next task on other nodes. Another account could create the folder
 * first: then each task has a /dev/shm of its own.
 */
const shareMemoryBash = (job: EngineJob) => `
shared=${sharedMemoryFolder(job)}
# Tasks that were killed have left theirs, without a lock.
for folder in ${sharedMemoryPrefix}*; do
  [ ! -d "$folder" ] || [ -L "$folder" ] || [ ! -O "$folder" ] || flock -x -n "$folder" rm -rf -- "$folder" 2> /dev/null
done
while true; do
  mkdir -m 700 -- "$shared" 2> /dev/null
  { [ -d "$shared" ] && [ ! -L "$shared" ] && [ -O "$shared" ] && exec {lock}< "$shared"; } 2> /dev/null || { shared=; break; }
  flock -s "$lock" 2> /dev/null || { exec {lock}<&-; shared=; break; }
  # Another task may have removed the folder meanwhile.
  [ ! "/proc/$$/fd/$lock" -ef "$shared" ] || break
  exec {lock}<&-
done
[ -z "$shared" ] || sandbox+=(--bind "$shared" /dev/shm)
`;

const sharedMemoryPrefix = '/dev/shm/bursar-';
const sharedMemoryFolder = ({ jobId }: EngineJob) => `${sharedMemoryPrefix}${jobId}`;

/**
 * Bash that defines the array `sandbox`, the arguments of bubblewrap on this node, and `run_isolated <folder> <command…>`, which
 * replaces the shell by the command in the sandbox. The command inherits no descriptor but its input, its outputs and that of
 * MPI (PMI_FD): a folder that is open outside would be a way out.
 *
 * Slurm sends signals to all processes. The process of bubblewrap outside of the sandbox must ignore them, because the sandbox
 * ends with it; the command starts with the default for each signal. Before coreutils 8.31 `env` cannot restore the default,
 * and Perl does. Without both the job is killed at once by the first signal.
 */
function sandboxBash(
  job: EngineJob,
  { readOnly, hidden, network, scheduler }: SlurmIsolation,
  place: 'batch' | 'task',
): string {
  const { directory } = job.workspace;
  const { mounts, remounts } = sandboxParts({
    directory,
    temporaryFolder: `${directory}.tmp`,
    startDirectory: startDirectoryOf(job),
    readOnly,
    hidden,
    network,
  });
  return `sandbox=(${quoteAllForBash(mounts)})
${scheduler ? showSchedulerBash : `${replaceCommandsBash[place]}\n${coverSrunBash}`}
${place === 'task' ? showPmixBash : ''}${hidePrivateFilesBash}
sandbox+=(${quoteAllForBash(remounts)})
restore_signals=(/usr/bin/env --default-signal --)
"\${restore_signals[@]}" true 2> /dev/null || restore_signals=(/usr/bin/perl -e ${quoteForBash(restoreSignalsPerl)} --)
"\${restore_signals[@]}" true 2> /dev/null || restore_signals=()
run_isolated() {
  local folder=$1
  shift
  [ "\${#restore_signals[@]}" = 0 ] || trap '' ${trappedSignals}
  # env would take the name of such a program for a variable.
  case $1 in *=*) set -- /bin/bash -c 'exec -- "$@"' bash "$@" ;; esac
  local descriptor
  for descriptor in /proc/self/fd/*; do
    descriptor=\${descriptor##*/}
    [ "$descriptor" -le 2 ] || [ "$descriptor" = "\${PMI_FD-}" ] || exec {descriptor}<&-
  done
  # Every account on the node can read the arguments of a process, which contain the variables of a task.
  exec {arguments}< <(printf '%s\\0' "\${sandbox[@]}" --chdir "$folder")
  exec bwrap --args "$arguments" -- "\${restore_signals[@]}" "$@"
}`;
}

const restoreSignalsPerl = `$SIG{$_} = "DEFAULT" for qw(${trappedSignals}); exec { $ARGV[0] } @ARGV or exit($!{ENOENT} ? 127 : 126)`;

/** The permissions of files in /etc do not stop a job that runs as root. */
const hidePrivateFilesBash = `if [ "$UID" = 0 ]; then
  while read -r -d '' path; do
    if [ -d "$path" ]; then sandbox+=(--tmpfs "$path" --remount-ro "$path"); else sandbox+=(--ro-bind /dev/null "$path"); fi
  done < <(find /etc '(' -type d ! -perm -005 -o ! -type d ! -type l ! -perm -004 ')' -print0 -prune)
fi`;

/** Shows the programs that replace Slurm's commands in a folder for PATH, and `srun` also in the place of Slurm's own one. */
const replaceCommandsBash = {
  batch: `sandbox+=(--ro-bind "$steps" ${requestFolder})`,
  task: `sandbox+=(--ro-bind "$steps/bin" ${requestFolder}/bin)`,
};
const coverSrunBash = `for path in /usr/bin/srun /bin/srun; do
  [ ! -e "$path" ] || sandbox+=(--ro-bind "$steps/bin/srun" "$path")
done`;

/**
 * Shows the folder of a step through which PMIx reaches slurmd. The variable comes from slurmd, not from the job. The job
 * could have put links into /tmp, in which bubblewrap would create the folder.
 */
const showPmixBash = `case \${PMIX_SERVER_TMPDIR-} in
  '' | /tmp/* | /var/tmp/*) ;;
  *) sandbox+=(--bind-try "$PMIX_SERVER_TMPDIR" "$PMIX_SERVER_TMPDIR") ;;
esac
`;

/** Shows the socket of munge and the configuration of Slurm. */
const showSchedulerBash = `
munge=$(scontrol show config | sed -n 's/^AuthInfo *=.*socket=\\([^,]*\\).*/\\1/p')
for path in "\${munge%/*}" /run/munge /var/run/munge /run/slurm "\${SLURM_CONF-}"; do
  [ ! -e "$path" ] || sandbox+=(--ro-bind "$path" "$path")
done`;
