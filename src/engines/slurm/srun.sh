#!/bin/bash
# shellcheck disable=SC2154  # variables that are set in front
# Takes the place of Slurm's commands inside the isolation. As `srun` it translates its command line to long options, and hands them,
# its folder, its environment and the command to the wrapper outside (steps.sh). It copies input, output, signals and the exit code.
# Nothing in it protects anything: the wrapper checks every request again.
#
# Set in front (steps.ts): request_folder, option_kinds, short_options, step_signals, answer_seconds, max_request_bytes.
environment=()
while IFS= read -r -d '' entry; do environment+=("$entry"); done < "/proc/$$/environ"
PATH=/usr/local/bin:/usr/bin:/bin
name=${0##*/}
fail() { echo "$name: error: $1" >&2; exit 1; }
[ "$name" = srun ] || fail 'not available in a job, which cannot reach the scheduler: ask Bursar about jobs, and let it submit and cancel them'
[ -p "$request_folder/requests" ] || fail 'not available in a task of srun: start all tasks from the script of the job'

options=() output='' error='' input='' exported=ALL
[ -z "$SRUN_CPUS_PER_TASK" ] || options+=("--cpus-per-task=$SRUN_CPUS_PER_TASK")
refuse() {
  local names
  names=$(printf '%s\n' "${!option_kinds[@]}" | LC_ALL=C sort | paste -sd ,)
  fail "the option $1 is not available in a job; available are: ${names//,/, }"
}
while [ $# -gt 0 ]; do
  unset value
  case $1 in
    --) shift; break ;;
    --*)
      option=${1%%=*} option=${option#--}
      case $1 in *=*) value=${1#*=} ;; esac
      given=--$option rest=
      ;;
    -[A-Za-z]*)
      given=${1:0:2} rest=${1:2}
      option=${short_options[${given#-}]-}
      ;;
    -?*) refuse "${1:0:2}" ;;
    *) break ;;
  esac
  shift
  case $option in '' | *[!a-z-]*) refuse "$given" ;; esac
  case ${option_kinds[$option]-} in
    required)
      [ -z "$rest" ] || value=$rest
      if [ -z "${value+set}" ]; then
        [ $# -gt 0 ] || fail "the option $given needs a value"
        value=$1
        shift
      fi
      ;;
    optional) [ -z "$rest" ] || value=$rest ;;
    none)
      [ -z "${value+set}" ] || fail "the option $given takes no value in a job"
      # Further options in the same word, such as -lu.
      [ -z "$rest" ] || set -- "-$rest" "$@"
      ;;
    *) refuse "$given" ;;
  esac
  case $option in
    chdir) cd -- "$value" || exit 1 ;;
    error) error=$value ;;
    export) exported=$value ;;
    input) input=$value ;;
    output) output=$value ;;
    version) set -- true; options=(--version); break ;;
    *) options+=("--$option${value+=$value}") ;;
  esac
done
[ $# -gt 0 ] || fail 'a command is missing'

# Files are opened here, inside the isolation.
file_name() {
  file=${1//%j/$SLURM_JOB_ID}
  case $file in
    none) file=/dev/null ;;
    *%*) fail "the file name $1 is not available in a job: it may contain only %j; let each task open a file of its own" ;;
  esac
}
[ -z "$input" ] || { file_name "$input"; exec < "$file" || exit 1; }
[ -z "$output" ] || { file_name "$output"; exec > "$file" || exit 1; }
if [ -n "$error" ]; then file_name "$error"; exec 2> "$file" || exit 1
elif [ -n "$output" ]; then exec 2>&1
fi

# The variables of the tasks, as --export says. Slurm sets its own ones for each task.
variables=()
IFS=, read -r -a exported_words <<< "$exported"
for word in "${exported_words[@]}"; do
  for entry in "${environment[@]}"; do
    case $entry in SLURM* | PMI* | SHLVL=* | _=* | *_VISIBLE_DEVICES=* | GPU_DEVICE_ORDINAL=*) continue ;; esac
    case $word in ALL | "${entry%%=*}") variables+=("$entry") ;; esac
  done
  case $word in *=*) variables+=("$word") ;; esac
done

words=("${options[@]}" -- "$PWD" "${variables[@]}" -- "$@")
words=("${#words[@]}" "${words[@]}")
LC_ALL=C length=0
for word in "${words[@]}"; do length=$((length + ${#word} + 1)); done
[ "$length" -le "$max_request_bytes" ] ||
  fail "the command and its variables have $length bytes, and $max_request_bytes are possible in a job: put them into a file"

id=$$.$RANDOM request=$request_folder/$id
echo "$id" 1<> "$request_folder/requests"
SECONDS=0
until [ -p "$request/arguments" ]; do
  [ "$SECONDS" -lt "$answer_seconds" ] ||
    fail 'the step cannot be started, because the wrapper of the job does not answer: its disk may be full'
  sleep 0.01
done
# Opened for reading too, so that this does not wait for the wrapper. The wrapper notices the end of this program by it.
exec 9<> "$request/signals"
# shellcheck disable=SC2064
for signal in "${step_signals[@]}"; do trap "echo $signal >&9" "$signal"; done
# Slurm signals all processes of a job: the copying ends with the output.
copy() { trap '' "${step_signals[@]}"; exec cat 9>&-; }
copy < "$request/stdout" &
copies=($!)
copy < "$request/stderr" >&2 &
copies+=($!)
copy <&0 > "$request/stdin" &
copy_input=$!
# A signal interrupts this, and "wait".
until printf '%s\0' "${words[@]}" > "$request/arguments"; do :; done 2> /dev/null
while kill -0 "${copies[@]}" 2> /dev/null; do wait "${copies[@]}"; done
kill -KILL "$copy_input" 2> /dev/null
read -r code < "$request/status"
exit "${code:-1}"
