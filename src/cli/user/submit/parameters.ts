import { BursarError } from '../../../domain/errors.ts';

/** A parameter of a sweep with all its values, in the order in which they were given. */
export interface SweptParameter {
  name: string;
  values: readonly string[];
}

/** One value for each parameter. */
export type Combination = Readonly<Record<string, string>>;

const namePattern = /^[A-Za-z_]\w*$/;
const rangePattern = /^(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?)(?::(-?\d+(?:\.\d+)?))?$/;
const maxValues = 10_000;
export const maxCombinations = 10_000;

/** Splits `name=value`. The value may contain anything, also `=`. */
export function parseAssignment(text: string): { name: string; value: string } {
  const equals = text.indexOf('=');
  const name = text.slice(0, equals);
  if (equals < 1 || !namePattern.test(name)) {
    throw invalidArgument(`--param ${text}: write it as name=value, such as --param steps=100.`);
  }
  return { name, value: text.slice(equals + 1) };
}

/** Parses the parameters of a single job. A name that is given twice is an error. */
export function parseParameters(texts: readonly string[] = []): Record<string, string> {
  const parameters: Record<string, string> = {};
  for (const { name, value } of texts.map(parseAssignment)) {
    if (Object.hasOwn(parameters, name)) throw invalidArgument(`--param ${name} is given twice. Give it once.`);
    parameters[name] = value;
  }
  return parameters;
}

/**
 * Parses a parameter of a sweep: `a=1,2,3`, `b=0.1..0.5:0.1` (from, to, step), or both in one list. A comma inside a value
 * is written as `\,`.
 */
export function parseSweptParameter(text: string): SweptParameter {
  const { name, value } = parseAssignment(text);
  const parts = value.split(/(?<!\\),/).map((part) => part.replaceAll('\\,', ','));
  if (parts.includes('')) {
    throw invalidArgument(`--param ${text}: a value is empty. Write the values as ${name}=1,2,3 or ${name}=1..10:2.`);
  }
  const values = parts.flatMap((part) => expandRange(part, text) ?? [part]);
  if (values.length > maxValues) throw tooManyValues(text);
  const repeated = values.find((one, index) => values.indexOf(one) !== index);
  if (repeated !== undefined) throw invalidArgument(`--param ${text}: the value ${repeated} occurs twice.`);
  return { name, values };
}

/** Calculates with integers of the smallest decimal place, because 0.1 + 0.2 is not 0.3 in floating point. */
function expandRange(part: string, text: string): string[] | null {
  const [, from, to, step] = rangePattern.exec(part) ?? [];
  if (from === undefined || to === undefined) return null;
  const places = Math.max(...[from, to, step ?? ''].map((number) => number.split('.')[1]?.length ?? 0));
  const [start, end] = [toScaled(from, places), toScaled(to, places)];
  const one = 10n ** BigInt(places);
  const increment = step === undefined ? (end < start ? -one : one) : toScaled(step, places);
  if (increment === 0n) throw invalidArgument(`--param ${text}: the step of a range must not be 0.`);
  if (increment > 0n !== end >= start && start !== end) {
    throw invalidArgument(`--param ${text}: ${part} has no values. Use a step of the other sign.`);
  }
  if ((end - start) / increment >= BigInt(maxValues)) throw tooManyValues(text);
  const values: string[] = [];
  for (let value = start; increment > 0n ? value <= end : value >= end; value += increment) {
    values.push(formatScaled(value, places));
  }
  return values;
}

function toScaled(number: string, places: number): bigint {
  const [whole = '', fraction = ''] = number.split('.');
  return BigInt(whole + fraction.padEnd(places, '0'));
}

function formatScaled(value: bigint, places: number): string {
  const digits = (value < 0n ? -value : value).toString().padStart(places + 1, '0');
  const whole = digits.slice(0, digits.length - places);
  const fraction = digits.slice(digits.length - places).replace(/0+$/, '');
  return `${value < 0n ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`;
}

/** Every combination of the values. The last parameter varies fastest. */
export function combine(parameters: readonly SweptParameter[]): Combination[] {
  const names = parameters.map(({ name }) => name);
  const repeated = names.find((name, index) => names.indexOf(name) !== index);
  if (repeated !== undefined) {
    throw invalidArgument(`--param ${repeated} is given twice. Give all its values in one list: ${repeated}=1,2,3.`);
  }
  const count = parameters.reduce((product, { values }) => product * values.length, 1);
  if (count > maxCombinations) {
    throw invalidArgument(`The sweep has ${count} combinations, and at most ${maxCombinations} are allowed.`);
  }
  return parameters.reduce<Combination[]>(
    (combinations, { name, values }) =>
      combinations.flatMap((combination) => values.map((value) => ({ ...combination, [name]: value }))),
    [{}],
  );
}

/** `a=1 b=0.5`, for tables and messages. */
export function describeCombination(combination: Combination): string {
  return Object.entries(combination)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');
}

function tooManyValues(text: string): BursarError {
  return invalidArgument(`--param ${text}: there are more than ${maxValues} values.`);
}

function invalidArgument(message: string): BursarError {
  return new BursarError('invalid_argument', message);
}
