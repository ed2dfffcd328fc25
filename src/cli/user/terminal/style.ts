import { inspect } from 'node:util';

export type Colour = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';

/** Adds colours to a text, or returns it unchanged if the output has none. */
export type Style = (colour: Colour, text: string) => string;

type Environment = Record<string, string | undefined>;

/** FORCE_COLOR wins over NO_COLOR, as in Node itself. */
export function usesColours(env: Environment, isTerminal: boolean): boolean {
  const { FORCE_COLOR: force = '', NO_COLOR: no = '', TERM: terminal } = env;
  if (force !== '') return force !== '0' && force !== 'false';
  return no === '' && isTerminal && terminal !== 'dumb';
}

export function createStyle(enabled: boolean): Style {
  if (!enabled) return (_, text) => text;
  // `styleText` would decide by the environment of the process, and Node 20.15 has no option against that.
  return (colour, text) => {
    const [start, end] = inspect.colors[colour] ?? [0, 0];
    return `\u001b[${start}m${text}\u001b[${end}m`;
  };
}
