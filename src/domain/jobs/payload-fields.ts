import type { FieldError } from '../errors.ts';

/**
 * The fields of a Payload. Numbers may be JSON numbers or strings. Each parser appends to `errors` and returns a
 * placeholder if its field is invalid, so that the caller can report the errors of all fields together.
 */
type Fields = Readonly<Record<string, unknown>>;

export interface NumberRule {
  /** The field is required if there is no default. */
  default?: number;
  min?: number;
  max?: number;
  /** Exclusive lower bound. */
  above?: number;
}

export interface TextRule {
  /** The field is required and must not be empty if there is no default. */
  default?: string;
  maxLength: number;
}

const integerText = /^[+-]?\d{1,15}$/;
const numberText = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: this pattern finds control characters
const controlCharacter = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

export function parseInteger(fields: Fields, field: string, rule: NumberRule, errors: FieldError[]): number {
  const value = getField(fields, field, rule.default, errors);
  if (value === undefined) return rule.default ?? 0;
  const number = typeof value === 'string' && integerText.test(value) ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isSafeInteger(number)) {
    errors.push({ field, message: 'must be a whole number' });
    return rule.default ?? 0;
  }
  return checkBounds(number, field, rule, errors);
}

export function parseNumber(fields: Fields, field: string, rule: NumberRule, errors: FieldError[]): number {
  const value = getField(fields, field, rule.default, errors);
  if (value === undefined) return rule.default ?? 0;
  const number = typeof value === 'string' && numberText.test(value) ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isFinite(number)) {
    errors.push({ field, message: 'must be a number' });
    return rule.default ?? 0;
  }
  return checkBounds(number, field, rule, errors);
}

export function parseText(fields: Fields, field: string, rule: TextRule, errors: FieldError[]): string {
  const value = getField(fields, field, rule.default, errors);
  if (value === undefined) return rule.default ?? '';
  if (typeof value !== 'string') {
    errors.push({ field, message: 'must be a string' });
    return '';
  }
  if (controlCharacter.test(value)) errors.push({ field, message: 'must not contain control characters' });
  else if (value.length > rule.maxLength) {
    errors.push({ field, message: `must be at most ${rule.maxLength} characters long` });
  } else if (rule.default === undefined && value.trim() === '') errors.push({ field, message: 'must not be empty' });
  else return value;
  return '';
}

function getField(fields: Fields, field: string, fallback: unknown, errors: FieldError[]): unknown {
  const value = Object.hasOwn(fields, field) ? fields[field] : undefined;
  if (value === undefined && fallback === undefined) errors.push({ field, message: 'is required' });
  return value;
}

function checkBounds(number: number, field: string, rule: NumberRule, errors: FieldError[]): number {
  const { min, max, above } = rule;
  if (above !== undefined && number <= above) errors.push({ field, message: `must be greater than ${above}` });
  else if (min !== undefined && number < min) errors.push({ field, message: `must be at least ${min}` });
  else if (max !== undefined && number > max) errors.push({ field, message: `must be at most ${max}` });
  return number;
}
