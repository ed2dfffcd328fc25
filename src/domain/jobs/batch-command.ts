import { assertNever } from '../errors.ts';
import type { JobCommand } from './job.ts';
import { quoteWord, splitWords, unclosedQuote } from './split-words.ts';
import { findScriptPathError } from './start-file.ts';

/**
 * The `sbatch` options that callers may write. Only `--wrap` has an effect: the Payload sets the resources. Every other
 * option (uid, chdir, account, dependency, mail…) could affect resources that are not the caller's, and is rejected.
 * Names must match exactly, because sbatch itself accepts abbreviations.
 */
const allowedOptions: Record<string, 'value' | 'flag'> = {
  nodes: 'value',
  ntasks: 'value',
  'ntasks-per-node': 'value',
  'cpus-per-task': 'value',
  time: 'value',
  'job-name': 'value',
  mem: 'value',
  'mem-per-cpu': 'value',
  constraint: 'value',
  exclusive: 'flag',
  parsable: 'flag',
  wrap: 'value',
};

const shortOptions: Record<string, string> = {
  N: 'nodes',
  n: 'ntasks',
  c: 'cpus-per-task',
  t: 'time',
  J: 'job-name',
  C: 'constraint',
};

export type ParsedBatchCommand = { ok: true; command: JobCommand } | { ok: false; error: string };

const isSbatch = (text: string) => /^\s*sbatch(\s|$)/.test(text);

/** Parses `sbatch [options] script args` into a script command. Any other text is a line for the shell. */
export function parseBatchCommand(text: string): ParsedBatchCommand {
  if (!isSbatch(text)) return { ok: true, command: { kind: 'line', line: text } };
  const words = splitWords(text);
  if (words === null) return invalid(unclosedQuote);
  return parseSbatchArguments(words.slice(1));
}

/** Formats a command so that `parseBatchCommand` returns the same one. Null for the argv of a tool. */
export function formatBatchCommand(command: JobCommand): string | null {
  switch (command.kind) {
    case 'line':
      return isSbatch(command.line) ? `sbatch --wrap=${quoteWord(command.line)}` : command.line;
    case 'script':
      return ['sbatch', command.script, ...command.args].map(quoteWord).join(' ');
    case 'argv':
      return null;
    default:
      return assertNever(command);
  }
}

/**
 * Returns the first error in the `#SBATCH` directives of a script, or null. Directives may use the same options as the
 * command line. Like sbatch, it stops at the first line that is neither empty nor a comment.
 */
export function validateSbatchDirectives(text: string): string | null {
  for (const line of text.split(/\r?\n/)) {
    if (line.trim() !== '' && !line.startsWith('#')) return null;
    if (!/^#SBATCH\s/.test(line)) continue;
    const words = splitWords(line.slice('#SBATCH'.length).replace(/\s#.*$/, ''));
    if (words === null) return `the line "${line}" has an unclosed quote`;
    for (let index = 0; index < words.length; ) {
      const word = words[index] ?? '';
      if (!word.startsWith('-')) return `the line "${line}" contains "${word}", which is not an option`;
      const option = parseOption(word, words[index + 1]);
      if ('error' in option) return option.error;
      index += option.wordsUsed;
    }
  }
  return null;
}

function parseSbatchArguments(words: readonly string[]): ParsedBatchCommand {
  let wrapped: string | null = null;
  let index = 0;
  while (index < words.length) {
    const word = words[index] ?? '';
    if (!word.startsWith('-') || word === '-') break;
    const option = parseOption(word, words[index + 1]);
    if ('error' in option) return invalid(option.error);
    if (option.name === 'wrap') wrapped = option.value;
    index += option.wordsUsed;
  }
  const [script, ...args] = words.slice(index);
  if (wrapped !== null) {
    if (script !== undefined) return invalid('sbatch takes a script or --wrap, not both; remove one of them');
    if (wrapped.trim() === '') return invalid('--wrap needs a command, such as --wrap="./run.sh"');
    return { ok: true, command: { kind: 'line', line: wrapped } };
  }
  if (!script) return invalid('sbatch needs the name of a script in the zip, such as "sbatch run.sh"');
  const pathError = findScriptPathError(script);
  return pathError === null ? { ok: true, command: { kind: 'script', script, args } } : invalid(pathError);
}

interface ParsedOption {
  name: string;
  value: string;
  wordsUsed: number;
}

/** Parses one option in any form that sbatch accepts: `--nodes=2`, `--nodes 2`, `-N2`, `-N 2`. */
function parseOption(word: string, nextWord: string | undefined): ParsedOption | { error: string } {
  const isLong = word.startsWith('--');
  const equals = word.indexOf('=');
  const givenName = isLong ? word.slice(2, equals === -1 ? undefined : equals) : word.slice(1, 2);
  const name = isLong ? givenName : (shortOptions[givenName] ?? '');
  const kind = Object.hasOwn(allowedOptions, name) ? allowedOptions[name] : undefined;
  if (kind === undefined) {
    const allowed = Object.keys(allowedOptions).join(', ');
    return { error: `the sbatch option ${isLong ? '--' : '-'}${givenName} is not allowed; allowed are ${allowed}` };
  }
  const attached = isLong ? (equals === -1 ? undefined : word.slice(equals + 1)) : word.slice(2) || undefined;
  if (kind === 'flag') return { name, value: attached ?? '', wordsUsed: 1 };
  if (attached !== undefined) return { name, value: attached, wordsUsed: 1 };
  if (nextWord === undefined) return { error: `the sbatch option ${word} needs a value` };
  return { name, value: nextWord, wordsUsed: 2 };
}

function invalid(error: string): ParsedBatchCommand {
  return { ok: false, error };
}
