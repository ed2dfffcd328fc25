import { usageError } from '../errors.ts';

/** Parses a whole number from 0: seconds, or KB. */
export function parseAmount(option: string, text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw usageError(`${option} must be a whole number; it is "${text}".`);
}

/** Exactly one of time and space. */
export function parseResource(options: { time?: string; space?: string }): {
  resource: 'time' | 'space';
  amount: number;
} {
  const { time, space } = options;
  if ((time === undefined) === (space === undefined))
    throw usageError('Give either --time or --space.', '--time is in seconds of the charging unit, --space in KB.');
  return time === undefined
    ? { resource: 'space', amount: parseAmount('--space', space ?? '') }
    : { resource: 'time', amount: parseAmount('--time', time) };
}
