import type { FieldError } from '../errors.ts';
import type { Payload } from './payload-fields.ts';

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
  const isList = Array.isArray(words) && words.every((word) => typeof word === 'string');
  if (!isList) return 'must be a string or a list of strings';
  if (words.length > maxTags) return `must have at most ${maxTags} words`;
  const invalid = words.find((word) => !isTag(word));
  return invalid === undefined ? null : `each ${tagRule}: "${invalid.slice(0, 40)}" is not a tag`;
}
