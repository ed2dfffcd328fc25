import type { FieldError } from '../errors.ts';

/**
 * Readers for the fields of a Payload, where numbers are written as text or as numbers. Each one appends to `errors`
 * what is wrong, and then answers with a harmless value, so that all faults are told at once.
 */
type Fields = Readonly<Record<string, unknown>>;

export interface NumberRule {
  /** Without one the field is required. */
  default?: number;
  min?: number;
  max?: number;
  /** An exclusive lower bound. */
  above?: number;
}

export interface TextRule {
  /** Without one the field is required, and may not be empty. */
  default?: string;
  maxLength: number;
}

const integerText = /^[+-]?\d{1,15}$/;
const numberText = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding control characters is what it is for
const controlCharacter = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

export function parseIntegerField(fields: Fields, field: string, rule: NumberRule, errors: FieldError[]): number {
  const value = present(fields, field, rule.default, errors);
  if (value === undefined) return rule.default ?? 0;
  const number = typeof value === 'string' && integerText.test(value) ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isSafeInteger(number)) {
    errors.push({ field, message: 'must be a whole number' });
    return rule.default ?? 0;
  }
  return withinBounds(number, field, rule, errors);
}

export function parseNumberField(fields: Fields, field: string, rule: NumberRule, errors: FieldError[]): number {
  const value = present(fields, field, rule.default, errors);
  if (value === undefined) return rule.default ?? 0;
  const number = typeof value === 'string' && numberText.test(value) ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isFinite(number)) {
    errors.push({ field, message: 'must be a number' });
    return rule.default ?? 0;
  }
  return withinBounds(number, field, rule, errors);
}

export function parseTextField(fields: Fields, field: string, rule: TextRule, errors: FieldError[]): string {
  const value = present(fields, field, rule.default, errors);
  if (value === undefined) return rule.default ?? '';
  if (typeof value !== 'string') {
    errors.push({ field, message: 'must be text' });
    return '';
  }
  if (controlCharacter.test(value)) errors.push({ field, message: 'must not contain control characters' });
  else if (value.length > rule.maxLength) {
    errors.push({ field, message: `must be at most ${rule.maxLength} characters long` });
  } else if (rule.default === undefined && value.trim() === '') errors.push({ field, message: 'must not be empty' });
  else return value;
  return '';
}

function present(fields: Fields, field: string, fallback: unknown, errors: FieldError[]): unknown {
  const value = Object.hasOwn(fields, field) ? fields[field] : undefined;
  if (value === undefined && fallback === undefined) errors.push({ field, message: 'is required' });
  return value;
}

function withinBounds(number: number, field: string, rule: NumberRule, errors: FieldError[]): number {
  const { min, max, above } = rule;
  if (above !== undefined && number <= above) errors.push({ field, message: `must be more than ${above}` });
  else if (min !== undefined && number < min) errors.push({ field, message: `must be at least ${min}` });
  else if (max !== undefined && number > max) errors.push({ field, message: `must be at most ${max}` });
  return number;
}
