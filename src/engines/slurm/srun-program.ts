import { optionPattern, ownOptions, stepOptions } from './step-options.ts';

/** The folder inside of the isolation that holds the FIFOs of `srun`. */
export const requestFolder = '/run/bursar';

/** Slurm's commands that are replaced inside of the isolation. All of them but `srun` only say that they are not available. */
export const replacedCommands = [
  'srun',
  'sbatch',
  'salloc',
  'sattach',
  'sbcast',
  'scancel',
  'squeue',
  'sinfo',
  'scontrol',
  'sacct',
];

const options = { ...stepOptions, ...ownOptions };
const shortNames = Object.entries(options)
  .filter(([, { short }]) => short !== undefined)
  .map(([name, { short }]) => `${short}) option=${name} ;;`)
  .join(' ');

/** Enough for any command line and environment that Linux accepts in practice. */
export const maxRequestBytes = 1_048_576;
/** How long the program inside and the wrapper wait for each other. */
export const answerSeconds = 60;

/** The signals that `srun` passes on to its tasks. */
export const stepSignals = ['HUP', 'INT', 'QUIT', 'USR1', 'USR2', 'ALRM', 'TERM', 'CONT'];
const signals = stepSignals.join(' ');

/**
 * The program that takes the place of Slurm's commands inside of the isolation. As `srun` it translates its command line to
 * long options, and hands them, its folder, its environment and the command to the wrapper outside: see
 * `serveStepsBash`. It copies input, output, signals and the exit code. Nothing in it protects anything: the wrapper
 * checks every request again.
 */
export const srunProgram = `#!/bin/bash
# Written by Bursar.
environment=()
while IFS= read -r -d '' entry; do environment+=("$entry"); done < "/proc/$$/environ"
PATH=/usr/local/bin:/usr/bin:/bin
name=\${0##*/}
fail() { echo "$name: error: $1" >&2; exit 1; }
[ "$name" = srun ] || fail 'not available in a job, which cannot reach the scheduler: ask Bursar about jobs, and let it submit and cancel them'
[ -p ${requestFolder}/requests ] || fail 'not available in a task of srun: start all tasks from the script of the job'

options=() output= error= input= exported=ALL
[ -z "$SRUN_CPUS_PER_TASK" ] || options+=("--cpus-per-task=$SRUN_CPUS_PER_TASK")
refuse() { fail "the option $1 is not available in a job; available are: ${Object.keys(options).sort().join(', ')}"; }
while [ $# -gt 0 ]; do
  unset value
  case $1 in
    --) shift; break ;;
    --*)
      option=\${1%%=*} option=\${option#--}
      case $1 in *=*) value=\${1#*=} ;; esac
      given=--$option rest=
      ;;
    -?*)
      given=\${1:0:2} rest=\${1:2}
      case \${given#-} in ${shortNames} *) refuse "$given" ;; esac
      ;;
    *) break ;;
  esac
  shift
  case $option in
    ${optionPattern(options, 'required')})
      [ -z "$rest" ] || value=$rest
      if [ -z "\${value+set}" ]; then
        [ $# -gt 0 ] || fail "the option $given needs a value"
        value=$1
        shift
      fi
      ;;
    ${optionPattern(options, 'optional')}) [ -z "$rest" ] || value=$rest ;;
    ${optionPattern(options)})
      [ -z "\${value+set}" ] || fail "the option $given takes no value in a job"
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
    *) options+=("--$option\${value+=$value}") ;;
  esac
done
[ $# -gt 0 ] || fail 'a command is missing'

# Files are opened here, inside of the isolation.
file_name() {
  file=\${1//%j/$SLURM_JOB_ID}
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
IFS=, read -r -a exported <<< "$exported"
for word in "\${exported[@]}"; do
  for entry in "\${environment[@]}"; do
    case $entry in SLURM* | PMI* | SHLVL=* | _=* | *_VISIBLE_DEVICES=* | GPU_DEVICE_ORDINAL=*) continue ;; esac
    case $word in ALL | "\${entry%%=*}") variables+=("$entry") ;; esac
  done
  case $word in *=*) variables+=("$word") ;; esac
done

words=("\${options[@]}" -- "$PWD" "\${variables[@]}" -- "$@")
words=("\${#words[@]}" "\${words[@]}")
LC_ALL=C length=0
for word in "\${words[@]}"; do length=$((length + \${#word} + 1)); done
[ "$length" -le ${maxRequestBytes} ] || fail "the command and its variables have $length bytes, and ${maxRequestBytes} are possible in a job: put them into a file"

id=$$.$RANDOM request=${requestFolder}/$id
echo "$id" 1<> ${requestFolder}/requests
SECONDS=0
until [ -p "$request/arguments" ]; do
  [ "$SECONDS" -lt ${answerSeconds} ] || fail 'the step cannot be started, because the wrapper of the job does not answer: its disk may be full'
  sleep 0.01
done
# Opened for reading too, so that this does not wait for the wrapper. The wrapper notices the end of this program by it.
exec 9<> "$request/signals"
for signal in ${signals}; do trap "echo $signal >&9" "$signal"; done
# Slurm signals all processes of a job: the copying ends with the output.
copy() { trap '' ${signals}; exec cat 9>&-; }
copy < "$request/stdout" &
copies=($!)
copy < "$request/stderr" >&2 &
copies+=($!)
copy <&0 > "$request/stdin" &
copy_input=$!
# A signal interrupts this, and "wait".
until printf '%s\\0' "\${words[@]}" > "$request/arguments"; do :; done 2> /dev/null
while kill -0 "\${copies[@]}" 2> /dev/null; do wait "\${copies[@]}"; done
kill -KILL "$copy_input" 2> /dev/null
read -r code < "$request/status"
exit "\${code:-1}"
`;
