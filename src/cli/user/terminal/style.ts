import { styleText } from 'node:util';

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
  return enabled ? (colour, text) => styleText(colour, text, { validateStream: false }) : (_, text) => text;
}
