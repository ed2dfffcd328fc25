import { constants } from 'node:fs';
import { access, open, realpath, stat } from 'node:fs/promises';
import { delimiter, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { assertNever } from '../../domain/errors.ts';
import type { JobCommand } from '../../domain/jobs/job.ts';
import { scriptErrors } from '../../domain/jobs/start-file.ts';
import { firstLineError } from '../job-messages.ts';

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
  if (isAbsolute(script)) return { rejected: scriptErrors.absolute(script) };
  const file = resolve(directory, script);
  const [realDirectory, target] = await Promise.all([realpath(directory), realpath(file).catch(() => null)]);
  if (isOutside(directory, file) || (target !== null && isOutside(realDirectory, target))) {
    return { rejected: scriptErrors.outside(script) };
  }
  if (target === null || !(await isFile(target))) return { rejected: scriptErrors.absent(script) };
  const firstLine = await readFirstLine(target);
  const rejected = firstLineError(script, firstLine);
  if (rejected !== null) return { rejected };
  // The kernel also passes the rest of the line as a single argument.
  const [, interpreter = '', argument] = /^#!\s*(\S*)\s*(.*?)\s*$/.exec(firstLine) ?? [];
  const { found, problem } = await findProgram(resolve(directory, interpreter), context);
  if (found === null) return { rejected: `${script} cannot be run by ${interpreter}: ${problem}` };
  return { program: found, args: [...(argument ? [argument] : []), file, ...args] };
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

function isOutside(folder: string, path: string): boolean {
  const relativePath = relative(folder, path);
  return relativePath === '..' || relativePath.startsWith(`..${sep}`) || isAbsolute(relativePath);
}

async function readFirstLine(path: string): Promise<string> {
  const file = await open(path, 'r');
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(1024), 0, 1024, 0);
    return buffer.toString('utf8', 0, bytesRead).split('\n', 1)[0] ?? '';
  } finally {
    await file.close();
  }
}

const isFile = (path: string) =>
  stat(path)
    .then((stats) => stats.isFile())
    .catch(() => false);
const isFolder = (path: string) =>
  stat(path)
    .then((stats) => stats.isDirectory())
    .catch(() => false);
const isExecutable = (path: string) =>
  access(path, constants.X_OK)
    .then(() => true)
    .catch(() => false);
