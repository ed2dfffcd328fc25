import type { FieldError } from '../errors.ts';
import { splitWords, unclosedQuote } from './command.ts';

/**
 * A Payload before validation. Numbers may be JSON numbers or strings. Each parser appends to `errors` and returns a
 * placeholder if its field is invalid, so that the caller can report the errors of all fields together.
 */
export type Payload = Readonly<Record<string, unknown>>;

export interface NumberRule {
  isInteger?: boolean;
  /** The field is required if there is no default. */
  default?: number | undefined;
  min?: number | undefined;
  max?: number | undefined;
  /** Exclusive lower bound. */
  above?: number;
}

export interface TextRule {
  /** The field is required and must not be empty if there is no default. */
  default?: string | undefined;
  maxLength: number;
}

const integerText = /^[+-]?\d{1,15}$/;
// Without `\d+\.?\d*`: digits that could belong to both parts would take quadratic time.
const numberText = /^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: this pattern finds control characters
const controlCharacter = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

/** Databases, files and programs would store or receive another character. */
const incompletePair = 'must be valid Unicode: a surrogate pair is incomplete';

export function parseNumber(payload: Payload, field: string, rule: NumberRule, errors: FieldError[]): number {
  const value = getField(payload, field, rule.default, errors);
  if (value === undefined) return rule.default ?? 0;
  const [pattern, isValid] = rule.isInteger ? [integerText, Number.isSafeInteger] : [numberText, Number.isFinite];
  const number = typeof value === 'string' && pattern.test(value) ? Number(value) : value;
  if (isValid(number)) return checkBounds(number as number, field, rule, errors);
  errors.push({ field, message: rule.isInteger ? 'must be a whole number' : 'must be a number' });
  return rule.default ?? 0;
}

export function parseText(payload: Payload, field: string, rule: TextRule, errors: FieldError[]): string {
  const value = getField(payload, field, rule.default, errors);
  if (value === undefined) return rule.default ?? '';
  const message = findTextError(value, rule);
  if (message === null) return value as string;
  errors.push({ field, message });
  return '';
}

export interface WordsRule {
  /** The field is required if there is no default. */
  default?: string | undefined;
  maxWords: number;
  /** Of all words together. */
  maxLength: number;
}

/** Parses a list of words: text that is split as a shell splits it, without expanding anything, or an array of strings. */
export function parseWords(payload: Payload, field: string, rule: WordsRule, errors: FieldError[]): string[] {
  const given = getField(payload, field, rule.default, errors);
  const value = given === undefined ? rule.default : given;
  if (value === undefined) return [];
  const words = typeof value === 'string' ? splitWords(value) : value;
  const isUnclosed = typeof value === 'string' && words === null;
  const message = isUnclosed ? unclosedQuote : findWordsError(words, rule);
  if (message === null) return words as string[];
  errors.push({ field, message });
  return [];
}

function findWordsError(words: unknown, rule: WordsRule): string | null {
  const { maxWords, maxLength } = rule;
  if (!isTextList(words)) return 'must be a string or a list of strings';
  if (rule.default === undefined && words.length === 0) return 'must not be empty';
  if (words.length > maxWords) return `must have at most ${maxWords} words`;
  if (words.join('').length > maxLength) return `must be at most ${maxLength} characters long`;
  if (words.some((word) => controlCharacter.test(word))) return 'must not contain control characters';
  return words.every((word) => word.isWellFormed()) ? null : incompletePair;
}

const isTextList = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((word) => typeof word === 'string');

function findTextError(value: unknown, rule: TextRule): string | null {
  if (typeof value !== 'string') return 'must be a string';
  if (controlCharacter.test(value)) return 'must not contain control characters';
  if (value.length > rule.maxLength) return `must be at most ${rule.maxLength} characters long`;
  if (!value.isWellFormed()) return incompletePair;
  return rule.default === undefined && value.trim() === '' ? 'must not be empty' : null;
}

function getField(payload: Payload, field: string, fallback: unknown, errors: FieldError[]): unknown {
  const value = Object.hasOwn(payload, field) ? payload[field] : undefined;
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

export const maxTags = 16;
export const tagRule = 'must be 1 to 32 letters, digits and _ . : = + -, beginning with a letter or a digit';
const tagPattern = /^[\p{L}\p{N}][\p{L}\p{N}\p{M}_.:=+-]{0,31}$/u;

export function isTag(text: string): boolean {
  return tagPattern.test(text);
}

/** Parses the tags of a job: a list of strings, or text with commas or spaces between them. Each is returned once. */
export function parseTags(payload: Payload, errors: FieldError[]): string[] {
  const value = Object.hasOwn(payload, 'tags') ? payload.tags : '';
  const words = typeof value === 'string' ? value.split(/[\s,]+/).filter((word) => word !== '') : value;
  const message = findTagsError(words);
  if (message === null) return [...new Set(words as string[])];
  errors.push({ field: 'tags', message });
  return [];
}

function findTagsError(words: unknown): string | null {
  if (!isTextList(words)) return 'must be a string or a list of strings';
  if (words.length > maxTags) return `must have at most ${maxTags} words`;
  const invalid = words.find((word) => !isTag(word));
  return invalid === undefined ? null : `each ${tagRule}: "${invalid.slice(0, 40)}" is not a tag`;
}
