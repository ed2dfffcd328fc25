import type { FieldError } from '../domain/errors.ts';
import { parseToolParameters } from '../domain/jobs/tool-command.ts';
import type { ToolParameter } from '../domain/systems/system.ts';

/** The common Payload fields. A tool cannot declare a parameter with one of these names. */
const reservedNames = ['command', 'tool', 'node_number', 'core_number', 'runtime', 'title'];

/** Returns the error in a parameter declaration, or null, so that it shows at start and not in the first job. */
export function findParameterError(name: string, parameter: ToolParameter): string | null {
  if (reservedNames.includes(name)) return 'is the name of a common Payload field; choose another name';
  if (parameter.min !== undefined && parameter.max !== undefined && parameter.min > parameter.max) {
    return 'min must not exceed max';
  }
  if (parameter.pattern !== undefined && !isValidPattern(parameter.pattern))
    return 'pattern must be a valid regular expression';
  if (parameter.default === undefined) return null;
  // The default must satisfy the same rules as a value in a Payload.
  const errors: FieldError[] = [];
  const tool = { command: [], parameters: { [name]: { ...parameter, required: true } } };
  parseToolParameters({ [name]: parameter.default }, tool, errors);
  return errors[0] === undefined ? null : `default ${errors[0].message}`;
}

function isValidPattern(text: string): boolean {
  try {
    new RegExp(`^(?:${text})$`, 'u');
    return true;
  } catch {
    return false;
  }
}
