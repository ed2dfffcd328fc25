# shellcheck shell=bash disable=SC2034,SC2154  # variables of the other parts
# Functions that isolate the job of a batch script, or one of its tasks.
#
# Set in front (wrapper.ts): directory, mounts, remounts, readable, hidden, private_files, isolation_required, trapped_signals,
# max_attempts, max_retry_seconds.

# A scheduler may replace these functions by its own, which come after them.
add_scheduler_arguments() { :; }
prepare_steps() { :; }
start_step_server() { :; }
stop_step_server() { :; }

# A private file in /etc that disappears makes find and bubblewrap fail. While accounts or packages of the node are changed, such
# files come and go for seconds.
SECONDS=0
attempt=1
can_retry() {
  [ "$attempt" -lt "$max_attempts" ] && [ "$SECONDS" -lt "$max_retry_seconds" ] || return
  attempt=$((attempt + 1))
  sleep 0.2
  return 0
}
retry() {
  attempt=1
  until "$@"; do can_retry || return; done
}

# Hides the files in /etc that are not for everybody, such as a key of the service account: a job has the user id and the groups of
# this account, and on a node where it is root, it can read all files. Files that the account cannot read need no cover.
find_private_files() {
  local path
  private=()
  # Its messages would be in the output of the job, although another attempt succeeds.
  while IFS= read -r -d '' path; do private+=("$path"); done < <(
    find /etc "${private_files[@]}" -prune '(' -readable -o -executable ')' -print0 2> /dev/null && printf 'end\0'
  )
  # The last one is the sign that find has succeeded.
  if [ "${#private[@]}" = 0 ] || [ "${private[-1]}" != end ]; then
    errors='the private files in /etc cannot be listed (find)'
    return 1
  fi
  unset 'private[-1]'
}
# Called right before the start: bubblewrap fails if a file that it should hide has disappeared.
hide_private_files() {
  local path
  hiding=()
  for path in "${private[@]}"; do
    if [ -d "$path" ]; then hiding+=(--tmpfs "$path" --remount-ro "$path")
    elif [ -e "$path" ]; then hiding+=(--ro-bind /dev/null "$path")
    fi
  done
}

# Adds groups of arguments: the path that a group hides, or nothing; the number of its arguments; the arguments. Only the node knows
# whether a hidden path exists there. A link cannot be covered: its target is hidden too, or the job is not started.
add_arguments() {
  while [ $# -gt 0 ]; do
    if [ -z "$1" ] || { [ -e "$1" ] && [ ! -L "$1" ]; }; then sandbox+=("${@:3:$2}"); fi
    shift $((2 + $2))
  done
}

# Sets the array `sandbox`, the arguments of bubblewrap on this node. If it fails, `errors` says why.
build_sandbox() {
  sandbox=()
  add_arguments "${mounts[@]}"
  add_scheduler_arguments
  retry find_private_files || return
  add_arguments "${remounts[@]}"
}

# run_isolated <folder> <command…> replaces the shell by the command in the sandbox. The command inherits no descriptor but its
# input, its outputs and that of MPI (PMI_FD): a folder that is open outside would be a way out.
#
# Schedulers signal all processes. The process of bubblewrap outside the sandbox must ignore signals, because the sandbox ends with
# it; the command starts with the default for each signal. Before coreutils 8.31 `env` cannot restore the default, and Perl does.
# Without both the job is killed at once by the first signal.
run_isolated() {
  local folder=$1 descriptor
  shift
  find_restore_signals
  [ "${#restore_signals[@]}" = 0 ] || trap '' "${trapped_signals[@]}"
  # env would mistake the name of such a program for a variable.
  # shellcheck disable=SC2016
  case $1 in *=*) set -- /bin/bash -c 'exec -- "$@"' bash "$@" ;; esac
  for descriptor in /proc/self/fd/*; do
    descriptor=${descriptor##*/}
    [ "$descriptor" -le 2 ] || [ "$descriptor" = "${PMI_FD-}" ] || exec {descriptor}<&-
  done
  hide_private_files
  # Every account on the node can read the arguments of a process, which contain the variables of a task.
  exec {arguments}< <(printf '%s\0' "${sandbox[@]}" "${hiding[@]}" --chdir "$folder")
  exec {report}> "$status"
  exec bwrap --json-status-fd "$report" --args "$arguments" -- "${restore_signals[@]}" "$@"
}
find_restore_signals() {
  # shellcheck disable=SC2016
  local perl='$SIG{$_} = "DEFAULT" for qw('${trapped_signals[*]}'); exec { $ARGV[0] } @ARGV or exit($!{ENOENT} ? 127 : 126)'
  restore_signals=(/usr/bin/env --default-signal --)
  "${restore_signals[@]}" true 2> /dev/null || restore_signals=(/usr/bin/perl -e "$perl" --)
  "${restore_signals[@]}" true 2> /dev/null || restore_signals=()
}
# Whether bubblewrap failed before it started the command, in which case it reports no exit code.
has_not_begun() { [ "$1" = 1 ] && [[ $(< "$status") != *exit-code* ]]; }

# Sets `isolated` if the isolation works on this node. If it is required, the job never runs without: a job could make bubblewrap
# fail for other jobs of the account on its node.
prepare_isolation() {
  problem='' advice=''
  if [ ! -e "$directory.started" ]; then
    type -P bwrap > /dev/null ||
      cannot_isolate 'bubblewrap is not installed there' 'install bubblewrap on all nodes, or set isolation: none'
    prepare_steps
    check_hidden
  fi
  # The same sandbox as that of the job: a failure is not the job's.
  if [ -n "$problem" ] || [ -e "$directory.started" ]; then :
  elif build_sandbox && retry try_sandbox; then isolated=yes
  else cannot_isolate "${errors:-bubblewrap failed}" 'docs/security.md says what isolation needs on all nodes, and the doctor tries it'
  fi
  [ -n "$problem" ] || return 0
  stop_step_server
  [ -z "$isolation_required" ] || not_started "it cannot be isolated on $HOSTNAME: $problem" "$advice"
}
# The first problem counts.
cannot_isolate() { [ -n "$problem" ] || problem=$1 advice=$2; }
try_sandbox() { hide_private_files; errors=$(bwrap "${sandbox[@]}" "${hiding[@]}" --chdir "$directory" -- true 2>&1); }

# Only the node knows the home folder of the account, which holds its keys, and the real names of folders. Refuses the isolation if
# the home or a hidden path is inside a folder that jobs can read, under a name that is not itself hidden. Example: `readable` has
# /nfs, and the home /home/svc is a link to /nfs/home/svc. Then `protected` is /home/svc, and a job could read the home as
# /nfs/home/svc, the `name`.
check_hidden() {
  local protected real_names real_readable real_protected name path folder i j
  protected=("$(unset HOME; echo ~)" "${hidden[@]}")
  real_names=()
  while IFS= read -r -d '' name; do real_names+=("$name"); done < <(realpath -zm -- "${readable[@]}" "${protected[@]}")
  real_readable=("${real_names[@]:0:${#readable[@]}}") real_protected=("${real_names[@]:${#readable[@]}}")
  [ "${#real_protected[@]}" = "${#protected[@]}" ] ||
    cannot_isolate 'the real names of folders cannot be read (realpath)' 'install coreutils on all nodes'
  for i in "${!protected[@]}"; do
    [ -e "${protected[i]}" ] || continue
    for j in "${!readable[@]}"; do
      for path in "${protected[i]}" "${real_protected[i]}"; do
        for folder in "${readable[j]}" "${real_readable[j]}"; do
          case $path/ in "$folder"/*) name=${readable[j]}${path#"$folder"} ;; *) continue ;; esac
          is_hidden "$name" ||
            cannot_isolate "jobs could read ${protected[i]} as $name, inside ${readable[j]}" 'move it, or list folders in readOnly that do not contain it'
        done
      done
    done
  done
}
is_hidden() {
  local path
  for path in "${hidden[@]}"; do
    case $1/ in "$path"/*) return ;; esac
  done
  return 1
}
