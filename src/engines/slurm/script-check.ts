import { posix } from 'node:path';
import { BursarError } from '../../domain/errors.ts';
import { scriptErrors } from '../../domain/jobs/start-file.ts';
import { firstLineError } from '../job-messages.ts';
import type { SlurmCommand } from './commands.ts';

/**
 * Prints `absent`, `outside`, or `file` and the first line of the script. Follows symbolic links before it decides. Starts no
 * program if there are none: that would take as long as sbatch.
 */
const inspectScriptBash = `
cd -P -- "$1" 2>/dev/null || { echo absent; exit 0; }
directory=$PWD
target=$directory/$2
part=$2
while :; do
  [ -L "$part" ] || [ "$\{part##*/}" = .. ] && { target=$(realpath -e -- "$2" 2>/dev/null) || { echo absent; exit 0; }; break; }
  case $part in */*) part=$\{part%/*} ;; *) break ;; esac
done
case $target in "$directory"/*) ;; *) echo outside; exit 0 ;; esac
[ -f "$target" ] || { echo absent; exit 0; }
echo file
line=
LC_ALL=C IFS= read -r -n 1024 line 2>/dev/null < "$target"
printf '%s\\n' "$line"
`;

/** Checks a script before submission: otherwise it could wait in the queue for days before it fails. */
export function scriptCheckCommand(directory: string, script: string): SlurmCommand {
  if (posix.isAbsolute(script)) throw refused(scriptErrors.absolute(script));
  if (posix.normalize(script).startsWith('..')) throw refused(scriptErrors.outside(script));
  return { argv: ['bash', '-c', inspectScriptBash, 'bursar', directory, script] };
}

/** Throws `job_refused` if the script cannot run. Does not check the interpreter, which only the nodes can find. */
export function requireRunnableScript(script: string, output: string): void {
  const [location, firstLine = ''] = output.split('\n');
  if (location === 'outside') throw refused(scriptErrors.outside(script));
  if (location !== 'file') throw refused(scriptErrors.absent(script));
  const message = firstLineError(script, firstLine);
  if (message !== null) throw refused(message);
}

const refused = (message: string) => new BursarError('job_refused', message);
