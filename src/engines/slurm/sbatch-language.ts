import { toTimeLimitSeconds } from '../../domain/accounting/charge.ts';
import { assertNever } from '../../domain/errors.ts';
import type { CommandLanguage, ParsedCommand, RequestedJob } from '../../domain/jobs/command.ts';
import { findScriptPathError, quoteWord, splitWords, unclosedQuote } from '../../domain/jobs/command.ts';
import type { JobCommand } from '../../domain/jobs/job.ts';
import { secondsPerHour } from '../../domain/units.ts';

// Pure: the web page and the users' command line import this module.

export const sbatchLanguage: CommandLanguage = {
  name: 'sbatch',
  example: 'sbatch run.sh',
  parse: parseCommand,
  format: formatCommand,
  findDirectiveError: findDirectivesError,
};

/** An option that says what the Payload says. */
interface RepeatingOption {
  isRepetition(value: string, job: RequestedJob): boolean;
  /** Names the value in the Payload, and the field to set instead. */
  advise(job: RequestedJob): string;
}

/** The Payload sets the resources and the title. These options may repeat it, and must not contradict it. */
const repeatingOptions: Readonly<Record<string, RepeatingOption>> = {
  nodes: {
    isRepetition: (value, { nodes }) => parseCount(value) === nodes,
    advise: ({ nodes }) => `node_number is ${nodes}; use node_number`,
  },
  ntasks: {
    isRepetition: (value, { nodes, coresPerNode }) => parseCount(value) === nodes * coresPerNode,
    advise: ({ nodes, coresPerNode }) =>
      `a job has one task for each core, and node_number × core_number is ${nodes * coresPerNode}; use node_number and core_number`,
  },
  'ntasks-per-node': {
    isRepetition: (value, { coresPerNode }) => parseCount(value) === coresPerNode,
    advise: ({ coresPerNode }) =>
      `a job has one task for each core, and core_number is ${coresPerNode}; use core_number`,
  },
  'cpus-per-task': {
    isRepetition: (value) => parseCount(value) === 1,
    advise: () => 'a job has one task for each core; use core_number, and srun --cpus-per-task in the script',
  },
  time: {
    isRepetition: (value, { runtimeHours }) => parseTimeLimit(value) === toTimeLimitSeconds(runtimeHours),
    advise: ({ runtimeHours }) => `the runtime is ${runtimeHours} hours; use runtime`,
  },
  'job-name': {
    isRepetition: (value, { title }) => value === title,
    advise: ({ title }) => `the title is ${JSON.stringify(title)}; use title`,
  },
};

/** `--wrap` is the command. `--parsable` changes what `sbatch` prints, which nobody sees. */
const otherOptions: Readonly<Record<string, 'value' | 'flag'>> = { parsable: 'flag', wrap: 'value' };

/** Advice for options that Bursar does not carry out. */
const advice: Readonly<Record<string, string>> = {
  mem: 'remove it: a job gets the memory that the system assigns to its nodes and cores (node_number, core_number)',
  'mem-per-cpu':
    'remove it: a job gets the memory that the system assigns to its nodes and cores (node_number, core_number)',
  constraint: 'remove it: the operators of the system choose the kind of nodes for each project',
  exclusive: 'remove it: to have a node for the job alone, use core_number with all cores of a node',
  output: 'remove it: the output of a job is kept as its stdout; redirect it in the script to write another file',
  error: 'remove it: the error output of a job is kept as its stderr; redirect it in the script to write another file',
};

const shortOptions: Readonly<Record<string, string>> = {
  N: 'nodes',
  n: 'ntasks',
  c: 'cpus-per-task',
  t: 'time',
  J: 'job-name',
  C: 'constraint',
  o: 'output',
  e: 'error',
};

/**
 * Whether an option that callers may write has a value; undefined for every other option (uid, chdir, account, dependency, mail…),
 * which could affect resources that are not the caller's. Names must match exactly, because sbatch itself accepts abbreviations.
 */
function kindOf(name: string): 'value' | 'flag' | undefined {
  if (Object.hasOwn(repeatingOptions, name)) return 'value';
  return Object.hasOwn(otherOptions, name) ? otherOptions[name] : undefined;
}

const isSbatch = (text: string) => /^\s*sbatch(\s|$)/.test(text);

/** Parses `sbatch [options] script args` into a script command. Any other text is a line for the shell. */
function parseCommand(text: string, job?: RequestedJob): ParsedCommand {
  if (!isSbatch(text)) return { ok: true, command: { kind: 'line', line: text } };
  const words = splitWords(text);
  if (words === null) return invalid(unclosedQuote);
  return parseSbatchArguments(words.slice(1), job);
}

function formatCommand(command: JobCommand): string | null {
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

/** Returns how an option contradicts the Payload, or null. */
function findContradiction({ name, value }: SbatchOption, job: RequestedJob): string | null {
  const option = repeatingOptions[name];
  if (option === undefined || option.isRepetition(value, job)) return null;
  return `the sbatch option --${name}=${shorten(value)} contradicts the Payload: ${option.advise(job)} instead`;
}

/** Checks the `#SBATCH` lines. Like sbatch, it stops at the first line that is neither empty nor a comment. */
function findDirectivesError(text: string, job: RequestedJob, hasMore: boolean): string | null {
  for (const line of text.split('\n')) {
    const trimmed = line.trimStart();
    if (trimmed !== '' && !trimmed.startsWith('#')) return null;
    if (!line.startsWith('#SBATCH')) continue;
    const words = splitWords(line.slice('#SBATCH'.length), '#');
    if (words === null) return `the line "${shorten(line.trimEnd())}" has an unclosed quote`;
    const problem = findDirectiveError(line, words, job);
    if (problem !== null) return problem;
  }
  return hasMore ? `no command follows within its first ${text.length} characters; put less text before it` : null;
}

function findDirectiveError(line: string, words: readonly string[], job: RequestedJob): string | null {
  for (let index = 0; index < words.length; ) {
    const word = words[index] ?? '';
    if (!word.startsWith('-')) {
      return `the line "${shorten(line.trimEnd())}" contains "${shorten(word)}", which is not an option`;
    }
    const option = parseOption(word, words[index + 1]);
    if ('error' in option) return option.error;
    if (option.name === 'wrap') return 'the sbatch option --wrap is not allowed in a script; use it in the command';
    const contradiction = findContradiction(option, job);
    if (contradiction !== null) return contradiction;
    index += option.wordsUsed;
  }
  return null;
}

/** For messages: a line of a script can be long. */
const shorten = (text: string) => (text.length > 100 ? `${text.slice(0, 100)}…` : text);

function parseSbatchArguments(words: readonly string[], job: RequestedJob | undefined): ParsedCommand {
  let wrapped: string | null = null;
  let contradiction: string | null = null;
  let index = 0;
  while (index < words.length) {
    const word = words[index] ?? '';
    if (!word.startsWith('-') || word === '-') break;
    const option = parseOption(word, words[index + 1]);
    if ('error' in option) return invalid(option.error);
    if (option.name === 'wrap') wrapped = option.value;
    else if (job !== undefined) contradiction ??= findContradiction(option, job);
    index += option.wordsUsed;
  }
  const [script, ...args] = words.slice(index);
  if (wrapped !== null) {
    if (script !== undefined) return invalid('sbatch takes a script or --wrap, not both; remove one of them');
    if (wrapped.trim() === '') return invalid('--wrap needs a command, such as --wrap="./run.sh"');
    return contradiction === null ? { ok: true, command: { kind: 'line', line: wrapped } } : invalid(contradiction);
  }
  if (!script) return invalid('sbatch needs the name of a script in the zip, such as "sbatch run.sh"');
  const pathError = findScriptPathError(script);
  if (pathError !== null) return invalid(pathError);
  return contradiction === null ? { ok: true, command: { kind: 'script', script, args } } : invalid(contradiction);
}

/** An option with its long name. */
interface SbatchOption {
  name: string;
  value: string;
}

interface ParsedOption extends SbatchOption {
  wordsUsed: number;
}

/** Parses one option in any form that sbatch accepts: `--nodes=2`, `--nodes 2`, `-N2`, `-N 2`. */
function parseOption(word: string, nextWord: string | undefined): ParsedOption | { error: string } {
  const isLong = word.startsWith('--');
  const equals = word.indexOf('=');
  const givenName = isLong ? word.slice(2, equals === -1 ? undefined : equals) : word.slice(1, 2);
  const name = isLong ? givenName : (shortOptions[givenName] ?? '');
  const kind = kindOf(name);
  const given = `${isLong ? '--' : '-'}${shorten(givenName)}`;
  if (kind === undefined) {
    const allowed = [...Object.keys(repeatingOptions), ...Object.keys(otherOptions)].join(', ');
    const remedy = Object.hasOwn(advice, name) ? advice[name] : `allowed are ${allowed}`;
    return { error: `the sbatch option ${given} is not allowed; ${remedy}` };
  }
  const attached = isLong ? (equals === -1 ? undefined : word.slice(equals + 1)) : word.slice(2) || undefined;
  if (kind === 'flag') {
    return attached === undefined
      ? { name, value: '', wordsUsed: 1 }
      : { error: `the sbatch option ${given} has no value; remove "=${shorten(attached)}"` };
  }
  if (attached !== undefined) return { name, value: attached, wordsUsed: 1 };
  if (nextWord === undefined) return { error: `the sbatch option ${given} needs a value` };
  return { name, value: nextWord, wordsUsed: 2 };
}

const parseCount = (text: string) => (/^\d{1,9}$/.test(text) ? Number(text) : null);

/**
 * Parses a time of sbatch to seconds: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes or
 * days-hours:minutes:seconds. Null for any other text.
 */
function parseTimeLimit(text: string): number | null {
  const [, days, first = '', second, third] =
    /^(?:(\d{1,5})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?$/.exec(text) ?? [];
  if (first === '') return null;
  const numbers = [first, second ?? 0, third ?? 0].map(Number);
  // Without days, one or two numbers begin with the minutes.
  const [hours = 0, minutes = 0, seconds = 0] = days === undefined && third === undefined ? [0, ...numbers] : numbers;
  return Number(days ?? 0) * 24 * secondsPerHour + hours * secondsPerHour + minutes * 60 + seconds;
}

function invalid(error: string): ParsedCommand {
  return { ok: false, error };
}
