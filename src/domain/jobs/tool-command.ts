import type { FieldError } from '../errors.ts';
import type { Tool, ToolParameter } from '../systems/system.ts';
import { parseIntegerField, parseNumberField, parseTextField } from './payload-fields.ts';

const valueLength = 1024;

/** The values of a tool's own parameters, as text ready for its command line. */
export function parseToolParameters(
  payload: Readonly<Record<string, unknown>>,
  tool: Tool,
  errors: FieldError[],
): Record<string, string> {
  const values: Record<string, string> = {};
  for (const [name, parameter] of Object.entries(tool.parameters)) {
    values[name] = readParameter(payload, name, parameter, errors);
  }
  return values;
}

/** The argv of a tool: each `{name}` of its template replaced. A value stays inside its argument; no shell sees it. */
export function buildToolArgv(tool: Tool, values: Readonly<Record<string, string>>): string[] {
  return tool.command.map((part) => part.replace(/\{(\w+)\}/g, (_, name: string) => values[name] ?? ''));
}

function readParameter(
  payload: Readonly<Record<string, unknown>>,
  name: string,
  parameter: ToolParameter,
  errors: FieldError[],
): string {
  const before = errors.length;
  const { min, max } = parameter;
  const bounds = { ...(min === undefined ? {} : { min }), ...(max === undefined ? {} : { max }) };
  const fallback = parameter.default ?? (parameter.required ? undefined : '');
  if (fallback === '' && !Object.hasOwn(payload, name)) return '';
  if (parameter.type !== 'string') {
    const rule = { ...bounds, ...(fallback === undefined ? {} : { default: Number(fallback) }) };
    const read = parameter.type === 'integer' ? parseIntegerField : parseNumberField;
    return String(read(payload, name, rule, errors));
  }
  const rule = { maxLength: valueLength, ...(fallback === undefined ? {} : { default: String(fallback) }) };
  const text = parseTextField(payload, name, rule, errors);
  if (errors.length > before) return text;
  if (parameter.values !== undefined && !parameter.values.includes(text)) {
    errors.push({ field: name, message: `must be one of ${parameter.values.join(', ')}` });
  } else if (parameter.pattern !== undefined && !new RegExp(`^(?:${parameter.pattern})$`, 'u').test(text)) {
    errors.push({ field: name, message: `must match ${parameter.pattern}` });
  }
  return text;
}
