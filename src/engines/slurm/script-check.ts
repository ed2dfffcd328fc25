import { posix } from 'node:path';
import { BursarError } from '../../domain/errors.ts';
import { firstLineRefusal, scriptRefusal } from '../script-refusal.ts';
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
  if (posix.isAbsolute(script)) throw refused(scriptRefusal.absolute(script));
  if (posix.normalize(script).startsWith('..')) throw refused(scriptRefusal.outside(script));
  return { argv: ['bash', '-c', look, 'bursar', directory, script] };
}

/** Throws `job_refused` when the script cannot be run. Whether its interpreter is there only the nodes know. */
export function requireRunnableScript(script: string, output: string): void {
  const [verdict, firstLine = ''] = output.split('\n');
  if (verdict === 'outside') throw refused(scriptRefusal.outside(script));
  if (verdict !== 'file') throw refused(scriptRefusal.absent(script));
  const refusal = firstLineRefusal(script, firstLine);
  if (refusal !== null) throw refused(refusal);
}

const refused = (message: string) => new BursarError('job_refused', message);
