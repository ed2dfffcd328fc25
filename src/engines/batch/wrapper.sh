# shellcheck shell=bash disable=SC2034,SC2154  # variables of the other parts
# The batch script of a job. It ensures that the job runs once, in its own directory, and exits as the job exits. It also writes an
# end record, because a controller that is killed can forget a job: a second start exits with the recorded code, and Bursar reads
# the record if the scheduler no longer reports the job.
#
# Set in front (wrapper.ts): directory, start_directory, environment, script, command; not_started_signal, duplicate_start_signal,
# refusal_code, trapped_signals; isolate, and with it the functions of isolate.sh.

umask 077

# Before the start record: the signal tells Bursar that nothing of the job ran.
not_started() {
  printf 'bursar: %s\n' "the job was not started: $1" "${@:2}" >&2
  kill "-$not_started_signal" $$
}
folder_failed() { not_started "$1" "check that the folder of the workspaces is mounted on $HOSTNAME, writable, and not full"; }

# Ends as the job ended: with the same code, or by the same signal.
finish() {
  trap - "${trapped_signals[@]}"
  ulimit -c 0
  case $1 in
    # CHLD CONT STOP TSTP TTIN TTOU URG WINCH do not kill.
    14[5-9] | 15[016]) ;;
    129 | 1[345]?) kill "-$(($1 - 128))" $$ ;;
  esac
  exit "$1"
}

record_end() {
  echo "$code $started $(date +%s)" > "$directory.started/end.new" && mv -T -- "$directory.started/end.new" "$directory.started/end"
}

# In a process of its own. A job that can be isolated never runs without isolation, even if bubblewrap cannot be started.
run_job() {
  export "${environment[@]}"
  if [ -n "$isolated" ]; then
    # shellcheck disable=SC2016
    run_isolated "$start_directory" /bin/bash -c '[ -z "$1" ] || chmod u+x "$1"; shift; exec -- "$@"' /bin/bash "$script" "${command[@]}"
    exit 1
  fi
  cd -- "$start_directory" || { echo 'bursar: the folder that the job starts in cannot be entered' >&2; exit 1; }
  [ -z "$script" ] || chmod u+x "$script"
  exec -- "${command[@]}"
}

# A scheduler may start a job elsewhere.
cd -- "$directory" || folder_failed 'its own folder cannot be entered'
[ -e "$directory.started" ] || mkdir -p -- "$directory.tmp" ||
  folder_failed 'its folder for temporary files cannot be created'
isolated=
[ -z "$isolate" ] || prepare_isolation
# Prevents a second run: mkdir succeeds only once, on shared file systems too.
if ! mkdir -- "$directory.started"; then
  [ ! -L "$directory.started" ] || not_started 'it had ended before' 'submit it again to run it'
  [ -d "$directory.started" ] || folder_failed 'its start record cannot be created'
  echo 'bursar: the job was started before; it runs only once' >&2
  code=
  { read -r code _ < "$directory.started/end"; } 2> /dev/null
  case $code in '' | *[!0-9]*) ;; *) finish "$code" ;; esac
  # This signal tells Bursar that the job itself did not fail.
  kill "-$duplicate_start_signal" $$
fi
started=$(date +%s)
# Schedulers signal all processes of a job. The wrapper ignores signals and waits for the job.
trap : "${trapped_signals[@]}"
terminated=
trap 'terminated=yes' TERM
[ -z "$isolated" ] || start_step_server
status=$directory.started/status
attempt=1
while true; do
  (run_job)
  code=$?
  # An isolated job starts again if nothing of it ran.
  if [ -z "$isolated" ] || [ -n "$terminated" ] || ! has_not_begun "$code"; then break; fi
  if ! can_retry; then
    rm -f -- "$status"
    stop_step_server
    not_started "bubblewrap failed on $HOSTNAME" 'the doctor tries the isolation on a node'
  fi
done
rm -f -- "$status"
if ! record_end; then
  # Without an end record, this exit code would mean that the node refused the job.
  [ "$code" != "$refusal_code" ] || code=2
  echo "bursar: the end record cannot be written; the exit code is $code" >&2
fi
[ -z "$isolated" ] || stop_step_server
# Never 0 after SIGTERM: an exit code of 0 at the time limit means that the node did not report the end.
[ "$code" = 0 ] && [ -n "$terminated" ] && code=143
finish "$code"
