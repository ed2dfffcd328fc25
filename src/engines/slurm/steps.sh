# shellcheck shell=bash disable=SC2034,SC2154  # variables of the other parts
# Adds to isolate.sh the tasks of `srun`, which slurmd starts outside the isolation of the job. The job has another
# `srun` (srun.sh), which hands its request to the wrapper. The wrapper checks it, and starts each task in a sandbox of its own.
#
# Set in front (steps.ts): in_task, scheduler, job_id, srun_program, request_folder, replaced_commands, step_signals,
# step_option_pattern, shared_memory_prefix, answer_seconds, idle_seconds, max_request_bytes, max_concurrent_steps, max_waiting_steps; and in the
# batch script all that isolate.sh needs.

steps=$directory.steps
shared=$shared_memory_prefix$job_id
server=

add_scheduler_arguments() {
  if [ -n "$scheduler" ]; then show_scheduler; return; fi
  # The programs that replace Slurm's commands, in a folder for PATH.
  if [ -n "$in_task" ]; then sandbox+=(--ro-bind "$steps/bin" "$request_folder/bin")
  else sandbox+=(--ro-bind "$steps" "$request_folder")
  fi
  cover_commands
  [ -z "$in_task" ] || show_pmix
}

# Shows the socket of munge and the configuration of Slurm.
show_scheduler() {
  local munge path
  munge=$(scontrol show config | sed -n 's/^AuthInfo *=.*socket=\([^,]*\).*/\1/p')
  for path in "${munge%/*}" /run/munge /var/run/munge /run/slurm "${SLURM_CONF-}"; do
    [ ! -e "$path" ] || sandbox+=(--ro-bind "$path" "$path")
  done
}

# Shows the programs also in the place of Slurm's own ones, for scripts with a PATH of their own. Bubblewrap cannot cover a link, but
# its target. It must not create files in /tmp: the job could have put links there.
cover_commands() {
  local folder name path slurm
  slurm=$(type -P srun)
  for folder in "${slurm%/*}" /usr/bin /bin; do
    for name in "${replaced_commands[@]}"; do
      path=$folder/$name
      [ ! -L "$path" ] || path=$(realpath -- "$path")
      case $path in /tmp/* | /var/tmp/*) ;; /*) [ ! -e "$path" ] || sandbox+=(--ro-bind "$steps/bin/$name" "$path") ;; esac
    done
  done
}

# Shows the folder of a step through which PMIx reaches slurmd. The variable comes from slurmd, not from the job. The job could
# have put links into /tmp, in which bubblewrap would create the folder.
show_pmix() {
  case ${PMIX_SERVER_TMPDIR-} in
    '' | /tmp/* | /var/tmp/*) ;;
    *) sandbox+=(--bind-try "$PMIX_SERVER_TMPDIR" "$PMIX_SERVER_TMPDIR") ;;
  esac
}

prepare_steps() {
  [ -z "$scheduler" ] && [ -z "$problem" ] || return
  errors=$(write_step_files 2>&1) || cannot_isolate "srun cannot be prepared ($errors)" \
    'the folder of the workspaces must be on a file system that has FIFOs and is not full; or set isolation: none'
}
write_step_files() {
  local name
  mkdir -p -- "$steps/bin" || return
  for name in "${replaced_commands[@]}"; do printf %s "$srun_program" > "$steps/bin/$name" || return; done
  chmod u+x -- "$steps/bin"/* || return
  # The program of a task has the variables and functions of this one.
  {
    declare -p directory environment mounts remounts private_files trapped_signals max_attempts max_retry_seconds
    declare -p steps shared scheduler request_folder replaced_commands shared_memory_prefix
    declare -f
    echo "SECONDS=0; in_task=yes; run_task \"\$1\""
  } > "$steps/task" || return
  [ -p "$steps/requests" ] || mkfifo -- "$steps/requests"
}

# In a process group of its own, so that all of it can be ended.
start_step_server() {
  [ -z "$scheduler" ] || return
  environment+=("PATH=$request_folder/bin:$PATH")
  set -m
  serve_steps 2> /dev/null &
  server=$!
  disown
  set +m
}
stop_step_server() {
  [ -z "$server" ] || kill -KILL -- "-$server"
  [ -n "$scheduler" ] || rm -rf -- "$steps" "$shared" 2> /dev/null
}

# Serves the `srun` inside the isolation. `$steps` is a folder that the job sees read-only: the job can use the FIFOs in it, but
# cannot replace them by links.
#
# A request is untrusted. Its options must be on the list, in the long form and without a slash; everything else of it goes into a
# file, which the task reads, so that the command line of Slurm's `srun` contains nothing else of it. Its variables are set inside
# the isolation of the task only.
serve_steps() {
  local waiting=() beginning='' timeout text id
  set +m
  cd /
  trap 'interrupted=yes' "${step_signals[@]}"
  exec 8<> "$steps/requests"
  while true; do
    # If Slurm uses no cgroups, this process can outlive the wrapper.
    kill -0 $$ 2> /dev/null || kill -KILL 0
    timeout=$idle_seconds
    [ "${#waiting[@]}" = 0 ] || timeout=0.1
    # The timeout can come in the middle of an id, which has up to 16 characters.
    if read -r -n 32 -t "$timeout" -u 8 text; then id=$beginning$text beginning=''; else id='' beginning=$beginning$text; fi
    [ "${#beginning}" -le 16 ] || beginning=
    if [[ $id =~ ^[0-9]{1,10}[.][0-9]{1,5}$ ]] && [ ! -e "$steps/$id" ] &&
      [ "${#waiting[@]}" -lt "$max_waiting_steps" ]; then
      rm -rf -- "$steps/new"
      # If this fails, the program inside gives up after a while.
      mkdir -- "$steps/new" && (cd -- "$steps/new" && mkfifo stdin stdout stderr arguments signals timer) &&
        mv -- "$steps/new" "$steps/$id" && waiting+=("$id")
    fi
    while [ "${#waiting[@]}" -gt 0 ] && [ "$(jobs -rp | wc -l)" -lt "$max_concurrent_steps" ]; do
      serve_step "$steps/${waiting[0]}" 8>&- &
      waiting=("${waiting[@]:1}")
    done
  done
}

serve_step() {
  local request=$1 step_server timer word words=() signal_reader=''
  trap 'interrupted=yes' "${step_signals[@]}"
  # The program inside may have been killed before it opened the FIFOs. Nothing writes to that of the timer.
  step_server=$BASHPID
  (
    read -r -t "$answer_seconds" <> "$request/timer"
    kill -KILL "$step_server"
    rm -rf -- "$request"
  ) < /dev/null > /dev/null 2>&1 &
  timer=$!
  exec < "$request/stdin" > "$request/stdout" 2> "$request/stderr"
  while IFS= read -r -d '' word; do words+=("$word"); done < <(head -c "$max_request_bytes" -- "$request/arguments")
  kill -KILL "$timer"
  wait "$timer" 2> /dev/null
  run_step
  echo "$?" > "$request/status"
  # The program inside reads the status when its output ends, and then closes the FIFO of the signals.
  exec < /dev/null > /dev/null 2>&1
  if [ -n "$signal_reader" ]; then wait_for "$signal_reader"; else cat < "$request/signals"; fi
  rm -rf -- "$request"
}

refuse_step() { echo "srun: error: $1" >&2; return 1; }

run_step() {
  local options=() step
  # The first word is the number of the others.
  [ "${words[0]-}" = "$((${#words[@]} - 1))" ] || { refuse_step 'the request is not complete'; return; }
  words=("${words[@]:1}")
  while [ "${#words[@]}" -gt 0 ] && [ "${words[0]}" != -- ]; do
    [[ ${words[0]} =~ $step_option_pattern ]] ||
      { refuse_step "the option ${words[0]} is not available in a job, or has an invalid value"; return; }
    options+=("${words[0]}")
    words=("${words[@]:1}")
  done
  printf '%s\0' "${words[@]:1}" > "$request/command" || return
  srun "${options[@]}" /bin/bash "$steps/task" "$request" <&0 &
  step=$!
  pass_signals < "$request/signals" > /dev/null 2>&1 &
  signal_reader=$!
  wait_for "$step"
}

# Ends when the program inside ends. If it was killed, the step ends too.
pass_signals() {
  local signal
  trap 'interrupted=yes' "${step_signals[@]}"
  while true; do
    read -r -n 8 signal
    case $?:" ${step_signals[*]} " in
      0:*" $signal "*) signal_step "$signal" ;;
      1:*) break ;;
    esac
  done
  signal_step TERM
}

# After the end of the step its process id can belong to another process of the account.
signal_step() { [ -e "$request/status" ] || kill -s "$1" "$step"; }

# A signal interrupts "wait".
wait_for() {
  local code interrupted=yes
  while [ -n "$interrupted" ]; do
    interrupted=
    wait "$1"
    code=$?
  done
  return "$code"
}

# Runs a task of `srun` in a sandbox of its own. The argument is the folder of the request.
run_task() {
  local word words=() index=1 code
  build_sandbox || { echo "bursar: the task was not started: $errors" >&2; exit 1; }
  while IFS= read -r -d '' word; do words+=("$word"); done < "$1/command"
  while [ "$index" -lt "${#words[@]}" ] && [ "${words[index]}" != -- ]; do
    case ${words[index]} in ?*=*) sandbox+=(--setenv "${words[index]%%=*}" "${words[index]#*=}") ;; esac
    index=$((index + 1))
  done
  status=$directory.started/status-$SLURM_STEP_ID-$SLURM_PROCID
  share_memory
  [ -z "$shared" ] || sandbox+=(--bind "$shared/files" /dev/shm)
  trap : "${trapped_signals[@]}"
  attempt=1
  while true; do
    (
      export "${environment[@]}" "PATH=$request_folder/bin:$PATH"
      run_isolated "${words[0]}" "${words[@]:index + 1}"
    )
    code=$?
    if ! has_not_begun "$code" || ! can_retry; then break; fi
  done
  rm -f -- "$status"
  [ -z "$shared" ] || remove_if_unused "$lock" "$shared"
  exit "$code"
}

# Tasks of a job on one node have one /dev/shm, through which MPI exchanges messages. It is a folder inside `$shared`: a task can
# change the mode of its /dev/shm, and another account could then hand it open files by a socket, as a way out.
#
# Each task holds a lock on `$shared`, and the last one removes it. If the tasks were killed, the wrapper does so on its own node,
# and the next task on other nodes. Another account could create the folder first: then each task has a /dev/shm of its own.
#
# Creates the folder `$shared` and locks it, or sets `shared` to nothing.
share_memory() {
  local folder tries=1
  # Tasks that were killed have left theirs, without a lock.
  for folder in "$shared_memory_prefix"*; do
    { is_own_folder "$folder" && exec {lock}< "$folder"; } 2> /dev/null || continue
    remove_if_unused "$lock" "$folder" 2> /dev/null
    exec {lock}<&-
  done
  # A task of another job may remove the folder before it is locked.
  until lock_shared; do
    [ "$tries" -lt 20 ] || { shared=; break; }
    tries=$((tries + 1))
  done
}
is_own_folder() { [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ]; }
# The descriptor of a folder, and its path, which may be another folder by now.
remove_if_unused() { flock -x -n "$1" && [ "/proc/$$/fd/$1" -ef "$2" ] && rm -rf -- "$2"; }
lock_shared() {
  mkdir -m 700 -- "$shared"
  { is_own_folder "$shared" && exec {lock}< "$shared"; } || return
  flock -s "$lock" && [ "/proc/$$/fd/$lock" -ef "$shared" ] && mkdir -p -- "$shared/files" && return
  exec {lock}<&-
  return 1
} 2> /dev/null
