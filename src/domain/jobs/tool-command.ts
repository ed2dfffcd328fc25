import type { FieldError } from '../errors.ts';
import type { Tool, ToolParameter } from '../systems/system.ts';
import { type Payload, parseInteger, parseNumber, parseText } from './payload-fields.ts';

const maxValueLength = 1024;
/** A parameter in the argv of a tool, such as `{input}`. */
export const placeholderPattern = /\{(\w+)\}/g;

/** Parses the parameters that a tool declares into strings for its command line. */
export function parseToolParameters(payload: Payload, tool: Tool, errors: FieldError[]): Record<string, string> {
  const values: Record<string, string> = {};
  for (const [name, parameter] of Object.entries(tool.parameters)) {
    values[name] = parseParameter(payload, name, parameter, errors);
  }
  return values;
}

/** Replaces each `{name}` in the tool's argv. No shell is involved, so a value cannot leave its argument. */
export function buildToolArgv(tool: Tool, values: Readonly<Record<string, string>>): string[] {
  return tool.command.map((part) => part.replace(placeholderPattern, (_, name: string) => values[name] ?? ''));
}

/** Throws a SyntaxError if the pattern is not valid. */
export function toWholeMatch(pattern: string): RegExp {
  return new RegExp(`^(?:${pattern})$`, 'u');
}

function parseParameter(payload: Payload, name: string, parameter: ToolParameter, errors: FieldError[]): string {
  const errorsBefore = errors.length;
  const { min, max } = parameter;
  const bounds = { ...(min === undefined ? {} : { min }), ...(max === undefined ? {} : { max }) };
  const fallback = parameter.default ?? (parameter.required ? undefined : '');
  if (fallback === '' && !Object.hasOwn(payload, name)) return '';
  if (parameter.type !== 'string') {
    const rule = { ...bounds, ...(fallback === undefined ? {} : { default: Number(fallback) }) };
    const parseField = parameter.type === 'integer' ? parseInteger : parseNumber;
    return String(parseField(payload, name, rule, errors));
  }
  const rule = { maxLength: maxValueLength, ...(fallback === undefined ? {} : { default: String(fallback) }) };
  const text = parseText(payload, name, rule, errors);
  if (errors.length > errorsBefore) return text;
  if (parameter.values !== undefined && !parameter.values.includes(text)) {
    errors.push({ field: name, message: `must be one of ${parameter.values.join(', ')}` });
  } else if (parameter.pattern !== undefined && !toWholeMatch(parameter.pattern).test(text)) {
    errors.push({ field: name, message: `must match ${parameter.pattern}` });
  }
  return text;
}
