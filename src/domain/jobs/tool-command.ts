import type { FieldError } from '../errors.ts';
import type { Tool, ToolParameter } from '../systems/system.ts';
import { type Payload, parseNumber, parseText, parseWords } from './payload-fields.ts';

const maxValueLength = 1024;
const maxWords = 64;
const maxWordsLength = 4096;
/** A parameter in the argv of a tool, such as `{input}`. */
export const placeholderPattern = /\{(\w+)\}/g;

/** The values of parameters for the command line of a tool. A list has one argument for each word. */
export type ToolValues = Record<string, string | string[]>;

/** Parses the parameters that a tool declares. */
export function parseToolParameters(payload: Payload, tool: Tool, errors: FieldError[]): ToolValues {
  const values: ToolValues = {};
  for (const [name, parameter] of Object.entries(tool.parameters)) {
    const parse = parameter.type === 'words' ? parseWordsParameter : parseParameter;
    values[name] = parse(payload, name, parameter, errors);
  }
  return values;
}

/** Replaces each `{name}` in the tool's argv. No shell is involved, so a value cannot leave its argument. */
export function buildToolArgv(tool: Tool, values: Readonly<ToolValues>): string[] {
  return tool.command.flatMap((part) => {
    const value = values[/^\{(\w+)\}$/.exec(part)?.[1] ?? ''];
    if (Array.isArray(value)) return value;
    return part.replace(placeholderPattern, (_, name: string) => String(values[name] ?? ''));
  });
}

/** Throws a SyntaxError if the pattern is not valid. */
export function toWholeMatch(pattern: string): RegExp {
  return new RegExp(`^(?:${pattern})$`, 'u');
}

function parseParameter(payload: Payload, name: string, parameter: ToolParameter, errors: FieldError[]): string {
  const errorsBefore = errors.length;
  const fallback = parameter.default ?? (parameter.required ? undefined : '');
  if (fallback === '' && !Object.hasOwn(payload, name)) return '';
  if (parameter.type !== 'string') {
    const { type, min, max } = parameter;
    const rule = {
      isInteger: type === 'integer',
      min,
      max,
      default: fallback === undefined ? fallback : Number(fallback),
    };
    return String(parseNumber(payload, name, rule, errors));
  }
  const rule = { maxLength: maxValueLength, default: fallback?.toString() };
  const text = parseText(payload, name, rule, errors);
  if (errors.length > errorsBefore) return text;
  const message = findValueError(text, parameter);
  if (message !== null) errors.push({ field: name, message });
  return text;
}

function parseWordsParameter(payload: Payload, name: string, parameter: ToolParameter, errors: FieldError[]): string[] {
  const { default: fallback = parameter.required ? undefined : '' } = parameter;
  const rule = { maxWords, maxLength: maxWordsLength, default: fallback?.toString() };
  const words = parseWords(payload, name, rule, errors);
  const message = words.map((word) => findValueError(word, parameter)).find((error) => error !== null);
  if (message) errors.push({ field: name, message: `every word ${message}` });
  return words;
}

function findValueError(text: string, { values, pattern, allowOptions }: ToolParameter): string | null {
  if (values !== undefined && !values.includes(text)) return `must be one of ${values.join(', ')}`;
  if (pattern !== undefined && !toWholeMatch(pattern).test(text)) return `must match ${pattern}`;
  // The program would mistake it for an option, and some options run commands, such as --to-command of tar.
  return text.startsWith('-') && !allowOptions ? 'must not begin with "-"' : null;
}
