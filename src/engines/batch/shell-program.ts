import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { quoteAllForBash, quoteForBash } from '../../shell/quote.ts';

/**
 * Reads a program of bash in the folder of a module. The build puts all of them beside its one file. Without its comments, because
 * schedulers store the script of every job.
 */
export function readShellProgram(name: string, moduleUrl: string): string {
  return readFileSync(fileURLToPath(new URL(name, moduleUrl)), 'utf8').replace(/^ *#[^!].*\n/gm, '');
}

/** Maps become associative arrays. True is `yes`, false is empty. */
export type ShellVariables = Readonly<
  Record<string, string | number | boolean | readonly string[] | ReadonlyMap<string, string>>
>;

/** Lines of bash that set variables, to be put in front of a program. */
export function setVariables(variables: ShellVariables): string {
  return Object.entries(variables)
    .map(([name, value]) => `${formatVariable(name, value)}\n`)
    .join('');
}

function formatVariable(name: string, value: ShellVariables[string]): string {
  if (typeof value === 'number') return `${name}=${value}`;
  if (typeof value === 'boolean') return `${name}=${value ? 'yes' : ''}`;
  if (typeof value === 'string') return `${name}=${quoteForBash(value)}`;
  if (value instanceof Map) {
    const entries = [...value].map(([key, text]) => `[${key}]=${quoteForBash(text)}`);
    return `declare -A ${name}=(${entries.join(' ')})`;
  }
  return `${name}=(${quoteAllForBash([...value.values()] as string[])})`;
}
