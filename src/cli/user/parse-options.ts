import { usageError } from './errors.ts';
import { parseRuntimeHours, parseWholeNumber } from './submit/settings.ts';

export function parseCount(option: string, text: string | undefined): number | undefined {
  return text === undefined ? undefined : parse(option, () => parseWholeNumber(text));
}

/** Parses hours, or a time such as 90m. */
export function parseHours(text: string | undefined): number | undefined {
  return text === undefined ? undefined : parse('--runtime', () => parseRuntimeHours(text));
}

function parse(option: string, action: () => number): number {
  try {
    return action();
  } catch (error) {
    throw usageError(`${option} ${(error as Error).message}.`);
  }
}
