import type { FieldError } from '../domain/errors.ts';
import { commonFields } from '../domain/jobs/payload.ts';
import { parseToolParameters, toWholeMatch } from '../domain/jobs/tool-command.ts';
import type { ToolParameter } from '../domain/systems/system.ts';

const reservedNames = [...commonFields, 'command', 'tool'];

/** Returns the first error in the declaration of a tool parameter, or null. */
export function findParameterError(name: string, parameter: ToolParameter): string | null {
  if (reservedNames.includes(name)) return 'is the name of a common Payload field; choose another name';
  if (parameter.min !== undefined && parameter.max !== undefined && parameter.min > parameter.max) {
    return 'min must not exceed max';
  }
  if (parameter.pattern !== undefined && !isValidPattern(parameter.pattern))
    return 'pattern must be a valid regular expression';
  const option = parameter.values?.find((value) => value.startsWith('-'));
  if (option !== undefined && !parameter.allowOptions)
    return `values contains ${option}, which begins with "-"; set allowOptions to allow that`;
  if (parameter.default === undefined) return null;
  const errors: FieldError[] = [];
  const tool = { command: [], parameters: { [name]: { ...parameter, required: true } } };
  parseToolParameters({ [name]: parameter.default }, tool, errors);
  return errors[0] === undefined ? null : `default ${errors[0].message}`;
}

/** Returns the error of a `{name}` in an argument of a tool's command, or null. The argument 0 is the program. */
export function findPlaceholderError(
  placeholder: string,
  parameter: ToolParameter | undefined,
  argument: string,
  index: number,
): string | null {
  if (parameter === undefined) return `${placeholder} is not a parameter`;
  if (parameter.type !== 'words' || (argument === placeholder && index > 0)) return null;
  return `${placeholder} has type words and must be an argument by itself`;
}

function isValidPattern(text: string): boolean {
  try {
    toWholeMatch(text);
    return true;
  } catch {
    return false;
  }
}
