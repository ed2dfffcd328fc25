import { posix } from 'node:path';
import { BursarError } from '../../domain/errors.ts';
import { scriptErrors } from '../../domain/jobs/start-file.ts';
import type { RunResult } from '../../shell/shell.ts';
import { firstLineError } from '../job-messages.ts';
import { readScriptFile } from '../script-file.ts';
import type { BatchCommand } from './run-command.ts';

/** The exit code of a submission whose script cannot run. Submit commands have no such code. */
const refusedCode = 65;

/**
 * Ends with `refusedCode` if the script cannot run, and prints `absent`, `outside`, or `file` and the first line of the script.
 * Follows symbolic links before it decides. Starts a program only if there are some: that takes longer than the rest. Reads
 * up to the first NUL: otherwise bash would skip them all, which takes minutes in a large file without a line end.
 */
const checkScriptBash = `
refuse() { printf '%s\\n' '' "$@"; exit ${refusedCode}; }
directory=$1 target=$1/$2 part=$2
[ -d "$directory" ] || refuse absent
while :; do
  if [ -L "$directory/$part" ] || [ "$\{part##*/}" = .. ]; then
    directory=$(realpath -e -- "$1" 2> /dev/null) && target=$(realpath -e -- "$1/$2" 2> /dev/null) || refuse absent
    break
  fi
  case $part in */*) part=$\{part%/*} ;; *) break ;; esac
done
case $target in "$directory"/*) ;; *) refuse outside ;; esac
[ -f "$target" ] || refuse absent
line=
LC_ALL=C IFS= read -r -d '' -n 1024 line 2> /dev/null < "$target" || :
line=$\{line%%$'\\n'*}
case $line in *$'\\r') refuse file "$line" ;; '#!'*[![:space:]]*) ;; *) refuse file "$line" ;; esac
`;

/**
 * Checks a script before submission: otherwise it could wait in the queue for days before it fails. On another host the check is
 * a part of the command that submits the job.
 */
export function scriptCheck(directory: string, script: string): NonNullable<BatchCommand['precondition']> {
  if (posix.isAbsolute(script)) throw refused(scriptErrors.absolute(script));
  if (posix.normalize(script).startsWith('..')) throw refused(scriptErrors.outside(script));
  return { bash: checkScriptBash, args: [directory, script] };
}

/** The same check on this host, without a process. */
export async function checkLocalScript(directory: string, script: string): Promise<void> {
  const file = await readScriptFile(directory, script);
  if ('rejected' in file) throw refused(file.rejected);
}

/** Throws `job_refused` if the script cannot run. Does not check the interpreter, which only the nodes can find. */
export function requireRunnableScript(script: string, { code, stdout }: RunResult): void {
  if (code !== refusedCode) return;
  // A start-up file may have printed something before, also without a line end.
  const [, location, firstLine = ''] = /^(absent|outside|file)\n([^\n]*)/m.exec(stdout) ?? [];
  if (location === 'absent') throw refused(scriptErrors.absent(script));
  if (location === 'outside') throw refused(scriptErrors.outside(script));
  const message = location === 'file' ? firstLineError(script, firstLine) : null;
  if (message !== null) throw refused(message);
}

const refused = (message: string) => new BursarError('job_refused', message);
