import type { JobCommand } from './job.ts';

/**
 * Options of `sbatch` that a caller may write. Nodes, cores, time and name are overridden by the Payload and by
 * Bursar; the rest ask for less than the system's own limits allow. Everything else (uid, chdir, account,
 * dependency, mail…) acts on what is not the caller's, and is refused by its exact name: sbatch itself would
 * understand abbreviations.
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

export type ParsedBatchCommand = { ok: true; command: JobCommand } | { ok: false; problem: string };

/** `sbatch [options] script args` becomes a script, everything else a line for the shell. */
export function parseBatchCommand(text: string): ParsedBatchCommand {
  if (!/^\s*sbatch(\s|$)/.test(text)) return { ok: true, command: { kind: 'line', line: text } };
  const words = splitWords(text);
  if (words === null) return refuse('it has a quote that is not closed; close it, or escape it with a backslash');
  return parseSbatchArguments(words.slice(1));
}

/**
 * What is wrong with the `#SBATCH` lines of a script, or null. They are held to the same list as the command line. As
 * sbatch does, it looks no further than the first line that is neither a comment nor empty.
 */
export function validateSbatchDirectives(text: string): string | null {
  for (const line of text.split(/\r?\n/)) {
    if (line.trim() !== '' && !line.startsWith('#')) return null;
    if (!/^#SBATCH\s/.test(line)) continue;
    const words = splitWords(line.slice('#SBATCH'.length).replace(/\s#.*$/, ''));
    if (words === null) return `the line "${line}" has a quote that is not closed`;
    for (let index = 0; index < words.length; ) {
      const word = words[index] ?? '';
      if (!word.startsWith('-')) return `the line "${line}" has a word that is no option`;
      const option = readOption(word, words[index + 1]);
      if ('problem' in option) return option.problem;
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
    const option = readOption(word, words[index + 1]);
    if ('problem' in option) return refuse(option.problem);
    if (option.name === 'wrap') wrapped = option.value;
    index += option.wordsUsed;
  }
  const [script, ...args] = words.slice(index);
  if (wrapped !== null) {
    if (script !== undefined) return refuse('sbatch takes a script or --wrap, not both; leave one of them out');
    if (wrapped.trim() === '') return refuse('--wrap needs a command, such as --wrap="./run.sh"');
    return { ok: true, command: { kind: 'line', line: wrapped } };
  }
  if (!script) return refuse('sbatch needs the name of a script in the zip, such as "sbatch run.sh"');
  return { ok: true, command: { kind: 'script', script, args } };
}

interface ReadOption {
  name: string;
  value: string;
  wordsUsed: number;
}

/** One option, in any of sbatch's spellings: `--nodes=2`, `--nodes 2`, `-N2`, `-N 2`. */
function readOption(word: string, following: string | undefined): ReadOption | { problem: string } {
  const long = word.startsWith('--');
  const equals = word.indexOf('=');
  const written = long ? word.slice(2, equals === -1 ? undefined : equals) : word.slice(1, 2);
  const name = long ? written : (shortOptions[written] ?? '');
  const kind = Object.hasOwn(allowedOptions, name) ? allowedOptions[name] : undefined;
  if (kind === undefined) {
    const allowed = Object.keys(allowedOptions).join(', ');
    return { problem: `the sbatch option ${long ? '--' : '-'}${written} is not allowed here; allowed are ${allowed}` };
  }
  const attached = long ? (equals === -1 ? undefined : word.slice(equals + 1)) : word.slice(2) || undefined;
  if (kind === 'flag') return { name, value: attached ?? '', wordsUsed: 1 };
  if (attached !== undefined) return { name, value: attached, wordsUsed: 1 };
  if (following === undefined) return { problem: `the sbatch option ${word} needs a value` };
  return { name, value: following, wordsUsed: 2 };
}

/** Words as a shell would split them, with quotes and backslashes but without any expansion; null for an open quote. */
function splitWords(text: string): string[] | null {
  const words: string[] = [];
  let word: string | null = null;
  let quote: '"' | "'" | null = null;
  for (let i = 0; i < text.length; i++) {
    const char = text.charAt(i);
    if (quote !== null) {
      if (char === quote) quote = null;
      else if (quote === '"' && char === '\\' && /["\\$`]/.test(text.charAt(i + 1))) word += text.charAt(++i);
      else word += char;
    } else if (char === '"' || char === "'") {
      quote = char;
      word ??= '';
    } else if (char === '\\' && i + 1 < text.length) {
      word = (word ?? '') + text.charAt(++i);
    } else if (/\s/.test(char)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? '') + char;
    }
  }
  if (quote !== null) return null;
  if (word !== null) words.push(word);
  return words;
}

function refuse(problem: string): ParsedBatchCommand {
  return { ok: false, problem };
}
