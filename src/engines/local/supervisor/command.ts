import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { delimiter, join, resolve } from 'node:path';
import { assertNever } from '../../../domain/errors.ts';
import type { JobCommand } from '../../../domain/jobs/job.ts';
import { isFile, readScriptFile } from '../../script-file.ts';

export type Invocation = { program: string; args: string[] };
/** `rejected` is the reason why the job cannot run. */
export type ResolvedCommand = Invocation | { rejected: string };

export interface CommandContext {
  /** The folder that the job starts in. */
  directory: string;
  /** The folders to search, as in PATH. */
  path: string;
  /** True if the job can see a file of this host. */
  canSee(path: string): Promise<boolean>;
}

/** Resolves a job's command to a program with its full path. */
export async function resolveCommand(command: JobCommand, context: CommandContext): Promise<ResolvedCommand> {
  if (!(await isFolder(context.directory))) return { rejected: 'its working directory does not exist' };
  switch (command.kind) {
    case 'line': {
      const shell = await findProgram('bash', context);
      return { program: shell.found ?? '/bin/sh', args: ['-c', command.line] };
    }
    case 'script':
      return resolveScript(command.script, command.args, context);
    case 'argv':
      return resolveProgram(command.argv, context);
    default:
      return assertNever(command);
  }
}

async function resolveProgram(argv: string[], context: CommandContext): Promise<ResolvedCommand> {
  const [name, ...args] = argv;
  if (!name) return { rejected: 'the command is empty' };
  const { found, problem } = await findProgram(name, context);
  return found === null ? { rejected: `${name} cannot be run: ${problem}` } : { program: found, args };
}

/** Passes a script to its interpreter, as a batch system does, so that it need not be executable. */
async function resolveScript(script: string, args: string[], context: CommandContext): Promise<ResolvedCommand> {
  const { directory } = context;
  const file = await readScriptFile(directory, script);
  if ('rejected' in file) return file;
  // The kernel also passes the rest of the line as a single argument.
  const line = file.firstLine.replace(/^#!/, '').trim();
  const [interpreter = ''] = line.split(/\s/, 1);
  const argument = line.slice(interpreter.length).trim();
  const { found, problem } = await findProgram(resolve(directory, interpreter), context);
  if (found === null) return { rejected: `${script} cannot be run by ${interpreter}: ${problem}` };
  return { program: found, args: [...(argument ? [argument] : []), file.path, ...args] };
}

async function findProgram(
  name: string,
  { directory, path, canSee }: CommandContext,
): Promise<{ found: string; problem?: never } | { found: null; problem: string }> {
  const isPath = name.includes('/');
  const candidates = isPath ? [resolve(directory, name)] : path.split(delimiter).map((folder) => join(folder, name));
  let problem = isPath ? 'there is no such program' : 'there is no such program on this system';
  for (const candidate of candidates) {
    if (!(await isFile(candidate))) continue;
    if (!(await canSee(candidate))) problem = 'it is in a folder that jobs of this system cannot see';
    else if (await isExecutable(candidate)) return { found: candidate };
    else problem = 'it is not executable (chmod +x)';
  }
  return { found: null, problem };
}

const isFolder = (path: string) =>
  stat(path)
    .then((stats) => stats.isDirectory())
    .catch(() => false);
const isExecutable = (path: string) =>
  access(path, constants.X_OK)
    .then(() => true)
    .catch(() => false);
