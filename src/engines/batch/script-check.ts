import { BursarError } from '../../domain/errors.ts';
import { findScriptPathError, scriptErrors } from '../../domain/jobs/command.ts';
import type { RunResult } from '../../shell/shell.ts';
import { firstLineError, readScriptFile } from '../script-file.ts';
import type { BatchCommand } from './run-command.ts';
import { readShellProgram, setVariables } from './shell-program.ts';

/** The exit code of a submission whose script cannot run. Submit commands have no such code. */
const refusedCode = 65;

const checkScriptProgram =
  setVariables({ refused_code: refusedCode }) + readShellProgram('check-script.sh', import.meta.url);

/**
 * Checks a script before submission: otherwise it could wait in the queue for days before it fails. On another host the check is
 * a part of the command that submits the job.
 */
export function scriptCheck(directory: string, script: string): NonNullable<BatchCommand['precondition']> {
  const pathError = findScriptPathError(script);
  if (pathError !== null) throw refused(pathError);
  return { bash: checkScriptProgram, args: [directory, script] };
}

/** The same check on this host, without a process. */
export async function checkLocalScript(directory: string, script: string): Promise<void> {
  const file = await readScriptFile(directory, script);
  if ('rejected' in file) throw refused(file.rejected);
}

/** Throws `job_refused` if the script cannot run. Does not check the interpreter, which only the nodes can find. */
export function requireRunnableScript(script: string, { code, stdout }: RunResult): void {
  if (code !== refusedCode) return;
  // A start-up file may have printed something before, even without a line end.
  const [, location, firstLine = ''] = /^(absent|outside|file)\n([^\n]*)/m.exec(stdout) ?? [];
  if (location === 'absent') throw refused(scriptErrors.absent(script));
  if (location === 'outside') throw refused(scriptErrors.outside(script));
  const message = location === 'file' ? firstLineError(script, firstLine) : null;
  if (message !== null) throw refused(message);
}

const refused = (message: string) => new BursarError('job_refused', message);
