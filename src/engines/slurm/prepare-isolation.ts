import { quoteAllForBash, quoteForBash } from '../../shell/quote.ts';
import type { BatchIsolation as SlurmIsolation } from '../batch/resolve-isolation.ts';
import type { EngineJob } from '../engine.ts';
import { systemPaths } from '../sandbox/arguments.ts';
import {
  maxAttempts,
  pauseOrBreakBash,
  type SandboxLines,
  sandboxBash,
  sandboxLines,
  trappedSignals,
} from './isolation.ts';
import { serveStepsBash } from './serve-steps.ts';
import { replacedCommands, srunProgram } from './srun-program.ts';

/**
 * Bash that prepares the isolation of a job on the node of the batch script, and sets `isolated` if it works there. If isolation
 * is required, it never falls back to none: a job could make bubblewrap fail for other jobs of the account on its node.
 */
export function prepareIsolationBash(job: EngineJob, isolation: SlurmIsolation, environment: string): string {
  const { required, scheduler } = isolation;
  const lines = sandboxLines(job, isolation);
  return `
steps=$directory.steps shared=${sharedMemoryFolder(job)}
${sandboxBash(lines, isolation, 'batch')}
isolated= problem= advice=
# The first problem counts.
cannot_isolate() { [ -n "$problem" ] || problem=$1 advice=$2; }
if [ ! -e "$directory.started" ]; then
  type -P bwrap > /dev/null ||
    cannot_isolate 'bubblewrap is not installed there' 'install bubblewrap on all nodes, or set isolation: none'
${scheduler ? '' : writeStepFilesBash(taskProgram(job, isolation, lines, environment))}${checkHiddenBash(isolation)}  # The same sandbox as that of the job: a failure is not the job's.
  try_sandbox() { hide_private_files; errors=$(bwrap "\${sandbox[@]}" "\${hiding[@]}" --chdir "$directory" -- true 2>&1); }
  if [ -n "$problem" ]; then :
  elif build_sandbox && retry try_sandbox; then isolated=yes
  else cannot_isolate "\${errors:-bubblewrap failed}" 'docs/security.md says what isolation needs on all nodes, and the doctor tries it'
  fi
${required ? stopUnlessIsolatedBash : ''}fi
${scheduler ? '' : serveStepsBash}`;
}

const stopUnlessIsolatedBash = `  if [ -z "$isolated" ]; then
    rm -rf -- "$steps"
    not_started "it cannot be isolated on $HOSTNAME: $problem" "$advice"
  fi
`;

/**
 * Only the node knows the home folder of the account, which holds its keys, and the real names of folders. Refuses the isolation if
 * the home or a hidden path is inside of a folder that jobs can read, under a name that is not itself hidden. Example: `readOnly`
 * lists /nfs, and the home /home/svc is a link to /nfs/home/svc. Then `protected` is /home/svc, `folder` and `readable` are
 * /nfs, and a job could read the home as `name`, /nfs/home/svc.
 */
function checkHiddenBash({ hidden, readOnly }: SlurmIsolation): string {
  const hiddenPaths = hidden.map(({ path }) => path);
  const isHidden = hiddenPaths.map((path) => `${quoteForBash(path)}/*`).join('|');
  return `  readable=(${quoteAllForBash([...systemPaths, ...readOnly])})
  protected=("$(unset HOME; echo ~)" ${quoteAllForBash(hiddenPaths)})
  real_names=()
  while IFS= read -r -d '' name; do real_names+=("$name"); done < <(realpath -zm -- "\${readable[@]}" "\${protected[@]}")
  real_readable=("\${real_names[@]:0:\${#readable[@]}}") real_protected=("\${real_names[@]:\${#readable[@]}}")
  [ "\${#real_protected[@]}" = "\${#protected[@]}" ] ||
    cannot_isolate 'the real names of folders cannot be read (realpath)' 'install coreutils on all nodes'
  for i in "\${!protected[@]}"; do
    [ -e "\${protected[i]}" ] || continue
    for j in "\${!readable[@]}"; do
      for path in "\${protected[i]}" "\${real_protected[i]}"; do
        for folder in "\${readable[j]}" "\${real_readable[j]}"; do
          case $path/ in "$folder"/*) name=\${readable[j]}\${path#"$folder"} ;; *) continue ;; esac
          case $name/ in
            ${isHidden === '' ? '' : `${isHidden}) ;;`}
            *) cannot_isolate "jobs could read \${protected[i]} as $name, inside of \${readable[j]}" 'move it, or list folders in readOnly that do not contain it' ;;
          esac
        done
      done
    done
  done
`;
}

/** Writes the programs and the FIFO of `srun`, with few processes. No program contains the line that ends it. */
const writeStepFilesBash = (program: string) => `
  write_step_files() {
    mkdir -p -- "$steps/bin" || return
    IFS= read -r -d '' program << 'END-OF-PROGRAM'
${srunProgram}END-OF-PROGRAM
    for name in ${replacedCommands.join(' ')}; do printf %s "$program" > "$steps/bin/$name" || return; done
    IFS= read -r -d '' program << 'END-OF-PROGRAM'
${program}END-OF-PROGRAM
    printf %s "$program" > "$steps/task" && chmod u+x -- "$steps/bin"/* && { [ -p "$steps/requests" ] || mkfifo -- "$steps/requests"; }
  }
  [ -n "$problem" ] || errors=$(write_step_files 2>&1) || cannot_isolate "srun cannot be prepared ($errors)" \\
    'the folder of the workspaces must be on a file system that has FIFOs and is not full; or set isolation: none'
`;

/** Runs a task of `srun` in a sandbox of its own. The argument is the folder of the request. */
const taskProgram = (job: EngineJob, isolation: SlurmIsolation, lines: SandboxLines, environment: string) => `
directory=${quoteForBash(job.workspace.directory)}
steps=$directory.steps
isolated=yes
${sandboxBash(lines, isolation, 'task')}
build_sandbox || { echo "bursar: the task was not started: $errors" >&2; exit 1; }
words=()
while IFS= read -r -d '' word; do words+=("$word"); done < "$1/command"
index=1
while [ "$index" -lt "\${#words[@]}" ] && [ "\${words[index]}" != -- ]; do
  case \${words[index]} in ?*=*) sandbox+=(--setenv "\${words[index]%%=*}" "\${words[index]#*=}") ;; esac
  index=$((index + 1))
done
status=$directory.started/status-$SLURM_STEP_ID-$SLURM_PROCID
${shareMemoryBash(job)}trap : ${trappedSignals}
for attempt in {1..${maxAttempts}}; do
(
${environment}
  run_isolated "\${words[0]}" "\${words[@]:index + 1}"
)
code=$?
has_not_begun "$code" || break
${pauseOrBreakBash}
done
rm -f -- "$status"
[ -z "$shared" ] || remove_if_unused "$lock" "$shared"
exit "$code"
`;

/**
 * Tasks of a job on one node have one /dev/shm, through which MPI exchanges messages. It is a folder inside of `$shared`: a task
 * can change the mode of its /dev/shm, and another account could then hand it open files by a socket, as a way out.
 *
 * Each task holds a lock on `$shared`, and the last one removes it. If the tasks were killed, the wrapper does so on its own node,
 * and the next task on other nodes. Another account could create the folder first: then each task has a /dev/shm of its own.
 */
const shareMemoryBash = (job: EngineJob) => `
shared=${sharedMemoryFolder(job)}
${shareFolderBash(sharedMemoryPrefix)}
[ -z "$shared" ] || sandbox+=(--bind "$shared/files" /dev/shm)
`;

/** Exported for tests. Creates the folder `$shared` and locks it, or sets `shared` to nothing. */
export const shareFolderBash = (prefix: string) => `
# The descriptor of a folder, and its path, which may be another folder by now.
remove_if_unused() { flock -x -n "$1" && [ "/proc/$$/fd/$1" -ef "$2" ] && rm -rf -- "$2"; }
# Tasks that were killed have left theirs, without a lock.
for folder in ${prefix}*; do
  { [ -d "$folder" ] && [ ! -L "$folder" ] && [ -O "$folder" ] && exec {lock}< "$folder"; } 2> /dev/null || continue
  remove_if_unused "$lock" "$folder" 2> /dev/null
  exec {lock}<&-
done
lock_shared() {
  mkdir -m 700 -- "$shared"
  { [ -d "$shared" ] && [ ! -L "$shared" ] && [ -O "$shared" ] && exec {lock}< "$shared"; } || return
  flock -s "$lock" && [ "/proc/$$/fd/$lock" -ef "$shared" ] && mkdir -p -- "$shared/files" && return
  exec {lock}<&-
  return 1
} 2> /dev/null
# A task of another job may remove the folder before it is locked.
attempt=1
until lock_shared; do
  [ "$attempt" -lt 20 ] || { shared=; break; }
  attempt=$((attempt + 1))
done
`;

const sharedMemoryPrefix = '/dev/shm/bursar-';
const sharedMemoryFolder = ({ jobId }: EngineJob) => `${sharedMemoryPrefix}${jobId}`;
