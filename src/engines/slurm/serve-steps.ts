import { answerSeconds, maxRequestBytes, stepSignals } from './srun-program.ts';
import { stepOptionPattern } from './step-options.ts';

/** A job that starts more steps at the same time waits. */
const maxConcurrentSteps = 64;
const maxWaitingSteps = 1000;

/**
 * The part of the wrapper that serves the `srun` inside of the isolation (see `srunProgram`). `$steps` is a folder that the
 * job sees read-only: the job can use the FIFOs in it, but cannot replace them by links.
 *
 * A request is untrusted. Its options must be on the list, in the long form and without a slash; everything else of it goes into a
 * file, which the task reads (`$steps/task`), so that the command line of Slurm's `srun` contains nothing else of it. Its
 * variables are set inside of the isolation of the task only.
 */
export const serveStepsBash = `
serve_steps() {
  set +m
  cd /
  trap 'interrupted=yes' ${stepSignals.join(' ')}
  exec 8<> "$steps/requests"
  waiting=() beginning=
  while true; do
    # Where Slurm uses no cgroups, this process can outlive the wrapper.
    kill -0 $$ 2> /dev/null || kill -KILL 0
    timeout=30
    [ "\${#waiting[@]}" = 0 ] || timeout=0.1
    # The timeout can come in the middle of an id, which has up to 16 characters.
    if read -r -n 32 -t "$timeout" -u 8 text; then id=$beginning$text beginning=; else id= beginning=$beginning$text; fi
    [ "\${#beginning}" -le 16 ] || beginning=
    if [[ $id =~ ^[0-9]{1,10}[.][0-9]{1,5}$ ]] && [ ! -e "$steps/$id" ] &&
      [ "\${#waiting[@]}" -lt ${maxWaitingSteps} ]; then
      rm -rf -- "$steps/new"
      # If this fails, the program inside gives up after a while.
      mkdir -- "$steps/new" && (cd -- "$steps/new" && mkfifo stdin stdout stderr arguments signals timer) &&
        mv -- "$steps/new" "$steps/$id" && waiting+=("$id")
    fi
    while [ "\${#waiting[@]}" -gt 0 ] && [ "$(jobs -rp | wc -l)" -lt ${maxConcurrentSteps} ]; do
      serve_step "$steps/\${waiting[0]}" 8>&- &
      waiting=("\${waiting[@]:1}")
    done
  done
}

serve_step() {
  trap 'interrupted=yes' ${stepSignals.join(' ')}
  request=$1
  # The program inside may have been killed before it opened the FIFOs. Nothing writes to that of the timer.
  step_server=$BASHPID
  (read -r -t ${answerSeconds} <> "$request/timer"; kill -KILL "$step_server"; rm -rf -- "$request") < /dev/null > /dev/null 2>&1 &
  timer=$!
  exec < "$request/stdin" > "$request/stdout" 2> "$request/stderr"
  words=()
  while IFS= read -r -d '' word; do words+=("$word"); done < <(head -c ${maxRequestBytes} -- "$request/arguments")
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
  options=() signal_reader= pattern='${stepOptionPattern}'
  # The first word is the number of the others.
  [ "\${words[0]-}" = "$((\${#words[@]} - 1))" ] || { refuse_step 'the request is not complete'; return; }
  words=("\${words[@]:1}")
  while [ "\${#words[@]}" -gt 0 ] && [ "\${words[0]}" != -- ]; do
    [[ \${words[0]} =~ $pattern ]] ||
      { refuse_step "the option \${words[0]} is not available in a job, or has an invalid value"; return; }
    options+=("\${words[0]}")
    words=("\${words[@]:1}")
  done
  printf '%s\\0' "\${words[@]:1}" > "$request/command" || return
  srun "\${options[@]}" /bin/bash "$steps/task" "$request" <&0 &
  step=$!
  pass_signals < "$request/signals" > /dev/null 2>&1 &
  signal_reader=$!
  wait_for "$step"
}

# Ends when the program inside ends. If it was killed, the step ends too.
pass_signals() {
  trap 'interrupted=yes' ${stepSignals.join(' ')}
  while true; do
    read -r -n 8 signal
    case $?:$signal in
      0:${stepSignals.join('|0:')}) signal_step "$signal" ;;
      1:*) break ;;
    esac
  done
  signal_step TERM
}

# After the end of the step its process id can belong to another process of the account.
signal_step() { [ -e "$request/status" ] || kill -s "$1" "$step"; }

# A signal interrupts "wait".
wait_for() {
  interrupted=yes
  while [ -n "$interrupted" ]; do
    interrupted=
    wait "$1"
    code=$?
  done
  return "$code"
}
`;
