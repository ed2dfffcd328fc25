import { maxRefusalSeconds } from '../../domain/jobs/end-record.ts';
import { quoteAllForBash, quoteForBash } from '../../shell/quote.ts';
import type { BatchIsolation as SlurmIsolation } from '../batch/resolve-isolation.ts';
import { type EngineJob, startDirectoryOf } from '../engine.ts';
import { type ArgumentGroup, isPrivateExpression, sandboxParts } from '../sandbox/arguments.ts';
import { replacedCommands, requestFolder } from './srun-program.ts';

/** All signals that can be trapped and that Slurm or a user may send. */
export const trappedSignals = 'HUP INT QUIT USR1 USR2 ALRM TERM XCPU XFSZ VTALRM PROF IO PWR';

/** Lines of bash that add the arguments of bubblewrap to `sandbox`. */
export interface SandboxLines {
  mounts: string;
  remounts: string;
}

/** The same for the batch script and for its tasks. */
export function sandboxLines(job: EngineJob, { readOnly, hidden, network }: SlurmIsolation): SandboxLines {
  const { directory } = job.workspace;
  const { mounts, remounts } = sandboxParts({
    directory,
    temporaryFolder: `${directory}.tmp`,
    startDirectory: startDirectoryOf(job),
    readOnly,
    hidden,
    network,
  });
  return { mounts: mounts.map(addArgumentsBash).join('\n'), remounts: remounts.map(addArgumentsBash).join('\n') };
}

/**
 * Bash that defines two functions. `build_sandbox` sets the array `sandbox`, the arguments of bubblewrap on this node; if it fails,
 * `errors` says why. `run_isolated <folder> <command…>` replaces the shell by the command in the sandbox. The command inherits no
 * descriptor but its input, its outputs and that of MPI (PMI_FD): a folder that is open outside would be a way out.
 *
 * Slurm sends signals to all processes. The process of bubblewrap outside of the sandbox must ignore them, because the sandbox
 * ends with it; the command starts with the default for each signal. Before coreutils 8.31 `env` cannot restore the default,
 * and Perl does. Without both the job is killed at once by the first signal.
 */
export function sandboxBash(
  { mounts, remounts }: SandboxLines,
  { scheduler }: SlurmIsolation,
  place: 'batch' | 'task',
): string {
  return `${retryBash}
${hidePrivateFilesBash}
build_sandbox() {
  sandbox=()
${mounts}
${scheduler ? showSchedulerBash : `${replaceCommandsBash[place]}\n${coverCommandsBash}`}
${place === 'task' ? showPmixBash : ''}  retry find_private_files || return
${remounts}
  return 0
}
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
  hide_private_files
  # Every account on the node can read the arguments of a process, which contain the variables of a task.
  exec {arguments}< <(printf '%s\\0' "\${sandbox[@]}" "\${hiding[@]}" --chdir "$folder")
  exec {report}> "$status"
  exec bwrap --json-status-fd "$report" --args "$arguments" -- "\${restore_signals[@]}" "$@"
}
# Whether bubblewrap failed before it started the command, in which case it reports no exit code.
has_not_begun() { [ "$1" = 1 ] && [[ $(< "$status") != *exit-code* ]]; }`;
}

/**
 * Only the node knows whether a hidden path exists there. A link cannot be covered: its target is hidden too, or the job is
 * not started (see `checkHiddenBash`).
 */
function addArgumentsBash({ args, hides }: ArgumentGroup): string {
  const path = hides === undefined ? '' : quoteForBash(hides);
  return `  ${path === '' ? '' : `[ ! -e ${path} ] || [ -L ${path} ] || `}sandbox+=(${quoteAllForBash(args)})`;
}

/**
 * A private file in /etc that disappears makes find and bubblewrap fail. While accounts or packages of the node are changed, such
 * files come and go for seconds.
 */
export const maxAttempts = 30;
/** A wrapper that gives up later than after `maxRefusalSeconds` is not believed: the job would be charged. */
export const maxRetrySeconds = maxRefusalSeconds / 2;
export const pauseOrBreakBash = `[ "$SECONDS" -lt ${maxRetrySeconds} ] || break; sleep 0.2`;
const retryBash = `SECONDS=0
retry() {
  local attempt
  for attempt in {1..${maxAttempts}}; do
    "$@" && return
    ${pauseOrBreakBash}
  done
  return 1
}`;

const restoreSignalsPerl = `$SIG{$_} = "DEFAULT" for qw(${trappedSignals}); exec { $ARGV[0] } @ARGV or exit($!{ENOENT} ? 127 : 126)`;

/**
 * Hides the files in /etc that are not for everybody, such as a key of the service account: a job has the user id and the groups of
 * this account, and on a node where it is root, it can read all files. Files that the account cannot read need no cover.
 */
const hidePrivateFilesBash = `find_private_files() {
  local path
  private=()
  # Its messages would be in the output of the job, although another attempt succeeds.
  while IFS= read -r -d '' path; do private+=("$path"); done < <(find /etc \\
    ${quoteAllForBash(isPrivateExpression.split(' '))} -prune '(' -readable -o -executable ')' -print0 2> /dev/null && printf 'end\\0')
  # The last one is the sign that find has succeeded.
  [ "\${#private[@]}" -gt 0 ] && [ "\${private[-1]}" = end ] || { errors='the private files in /etc cannot be listed (find)'; return 1; }
  unset 'private[-1]'
}
# Called right before the start: bubblewrap fails if a file that it should hide has disappeared.
hide_private_files() {
  local path
  hiding=()
  for path in "\${private[@]}"; do
    if [ -d "$path" ]; then hiding+=(--tmpfs "$path" --remount-ro "$path")
    elif [ -e "$path" ]; then hiding+=(--ro-bind /dev/null "$path")
    fi
  done
}`;

/** Shows the programs that replace Slurm's commands in a folder for PATH. */
const replaceCommandsBash = {
  batch: `  sandbox+=(--ro-bind "$steps" ${requestFolder})`,
  task: `  sandbox+=(--ro-bind "$steps/bin" ${requestFolder}/bin)`,
};

/**
 * Shows them also in the place of Slurm's own ones, for scripts with a PATH of their own. Bubblewrap cannot cover a link, but its
 * target. It must not create files in /tmp: the job could have put links there.
 */
const coverCommandsBash = `  local folder name path slurm=$(type -P srun)
  for folder in "\${slurm%/*}" /usr/bin /bin; do
    for name in ${replacedCommands.join(' ')}; do
      path=$folder/$name
      [ ! -L "$path" ] || path=$(realpath -- "$path")
      case $path in /tmp/* | /var/tmp/*) ;; /*) [ ! -e "$path" ] || sandbox+=(--ro-bind "$steps/bin/$name" "$path") ;; esac
    done
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
