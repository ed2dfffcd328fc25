import { posix } from 'node:path';
import { BursarError } from '../../domain/errors.ts';
import { firstLineError, scriptErrors } from '../script-errors.ts';
import type { SlurmCommand } from './commands.ts';

/** Says where a script really is, and how it begins. */
const look = `
cd -- "$1" 2>/dev/null || { echo absent; exit 0; }
home=$(pwd -P)
target=$(realpath -e -- "$2" 2>/dev/null) || { echo absent; exit 0; }
case $target in "$home"/*) ;; *) echo outside; exit 0 ;; esac
[ -f "$target" ] || { echo absent; exit 0; }
echo file
head -c 1024 -- "$target" | head -n 1 | tr -d '\\000'
`;

/** Looks at a script before it is submitted: in the queue it might take days until it fails. */
export function scriptCheckCommand(directory: string, script: string): SlurmCommand {
  if (posix.isAbsolute(script)) throw refused(scriptErrors.absolute(script));
  if (posix.normalize(script).startsWith('..')) throw refused(scriptErrors.outside(script));
  return { argv: ['bash', '-c', look, 'bursar', directory, script] };
}

/** Throws `job_refused` when the script cannot be run. Whether its interpreter is there only the nodes know. */
export function requireRunnableScript(script: string, output: string): void {
  const [verdict, firstLine = ''] = output.split('\n');
  if (verdict === 'outside') throw refused(scriptErrors.outside(script));
  if (verdict !== 'file') throw refused(scriptErrors.absent(script));
  const refusal = firstLineError(script, firstLine);
  if (refusal !== null) throw refused(refusal);
}

const refused = (message: string) => new BursarError('job_refused', message);
