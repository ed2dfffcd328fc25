import { posix } from 'node:path';
import { BursarError } from '../../domain/errors.ts';
import { scriptErrors } from '../../domain/jobs/start-file.ts';
import { firstLineError } from '../job-messages.ts';
import type { SlurmCommand } from './commands.ts';

/** Prints `absent`, `outside`, or `file` and the first line of the script. Follows symbolic links before it decides. */
const inspectScriptBash = `
cd -- "$1" 2>/dev/null || { echo absent; exit 0; }
directory=$(pwd -P)
target=$(realpath -e -- "$2" 2>/dev/null) || { echo absent; exit 0; }
case $target in "$directory"/*) ;; *) echo outside; exit 0 ;; esac
[ -f "$target" ] || { echo absent; exit 0; }
echo file
head -c 1024 -- "$target" | head -n 1 | tr -d '\\000'
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
