import { constants } from 'node:fs';
import { access, open, realpath, stat } from 'node:fs/promises';
import { delimiter, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { assertNever } from '../../domain/errors.ts';
import type { JobCommand } from '../../domain/jobs/job.ts';
import { firstLineRefusal, scriptRefusal } from '../script-refusal.ts';

/** A program to run as it is, or why the job cannot be run and what to do about it. */
export type Invocation = { program: string; args: string[] } | { rejected: string };

/** Finds out what to run, with the folders of `path` to look for programs in. Runs nothing. */
export async function prepareCommand(command: JobCommand, directory: string, path: string): Promise<Invocation> {
  if (!(await isFolder(directory))) return { rejected: 'its working directory does not exist' };
  switch (command.kind) {
    case 'line': {
      const shell = await findProgram('bash', directory, path);
      return { program: shell.found ?? '/bin/sh', args: ['-c', command.line] };
    }
    case 'script':
      return prepareScript(command.script, command.args, directory);
    case 'argv':
      return prepareProgram(command.argv, directory, path);
    default:
      return assertNever(command);
  }
}

async function prepareProgram(argv: string[], directory: string, path: string): Promise<Invocation> {
  const [name, ...args] = argv;
  if (!name) return { rejected: 'the command is empty' };
  const { found, problem } = await findProgram(name, directory, path);
  return found === null ? { rejected: `${name} cannot be run: ${problem}` } : { program: found, args };
}

/** A script needs no permission to be executed: it is given to its interpreter, as a batch system would. */
async function prepareScript(script: string, args: string[], directory: string): Promise<Invocation> {
  if (isAbsolute(script)) return { rejected: scriptRefusal.absolute(script) };
  const file = resolve(directory, script);
  const [home, target] = await Promise.all([realpath(directory), realpath(file).catch(() => null)]);
  if (isOutside(directory, file) || (target !== null && isOutside(home, target))) {
    return { rejected: scriptRefusal.outside(script) };
  }
  if (target === null || !(await isFile(target))) return { rejected: scriptRefusal.absent(script) };
  const firstLine = await readFirstLine(target);
  const rejected = firstLineRefusal(script, firstLine);
  if (rejected !== null) return { rejected };
  // As the kernel reads it: the interpreter, and all the rest as one argument.
  const [, interpreter = '', argument] = /^#!\s*(\S*)\s*(.*?)\s*$/.exec(firstLine) ?? [];
  const { found, problem } = await findProgram(resolve(directory, interpreter), directory, '');
  if (found === null) return { rejected: `${script} cannot be run by ${interpreter}: ${problem}` };
  return { program: found, args: [...(argument ? [argument] : []), file, ...args] };
}

async function findProgram(
  name: string,
  directory: string,
  path: string,
): Promise<{ found: string; problem?: never } | { found: null; problem: string }> {
  const isPath = name.includes('/');
  const candidates = isPath ? [resolve(directory, name)] : path.split(delimiter).map((folder) => join(folder, name));
  let problem = isPath ? 'there is no such program' : 'there is no such program on this system';
  for (const candidate of candidates) {
    if (!(await isFile(candidate))) continue;
    if (await isExecutable(candidate)) return { found: candidate };
    problem = 'it is not executable (chmod +x)';
  }
  return { found: null, problem };
}

function isOutside(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way === '..' || way.startsWith(`..${sep}`) || isAbsolute(way);
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
    .then((found) => found.isFile())
    .catch(() => false);
const isFolder = (path: string) =>
  stat(path)
    .then((found) => found.isDirectory())
    .catch(() => false);
const isExecutable = (path: string) =>
  access(path, constants.X_OK)
    .then(() => true)
    .catch(() => false);
