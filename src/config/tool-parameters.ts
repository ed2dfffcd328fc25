import type { FieldError } from '../domain/errors.ts';
import { parseToolParameters } from '../domain/jobs/tool-command.ts';
import type { ToolParameter } from '../domain/systems/system.ts';

/** Fields of every Payload, which a tool cannot have for itself. */
const reserved = ['command', 'tool', 'node_number', 'core_number', 'runtime', 'title'];

/** What is wrong with a parameter that a tool declares, or null: told at start rather than by the first job. */
export function findParameterError(name: string, parameter: ToolParameter): string | null {
  if (reserved.includes(name)) return 'is a field that every Payload has; choose another name';
  if (parameter.min !== undefined && parameter.max !== undefined && parameter.min > parameter.max) {
    return 'min is over max';
  }
  if (parameter.pattern !== undefined && !isPattern(parameter.pattern)) return 'pattern is not a regular expression';
  if (parameter.default === undefined) return null;
  // The default is held to the rules that a job's own value is held to.
  const errors: FieldError[] = [];
  const tool = { command: [], parameters: { [name]: { ...parameter, required: true } } };
  parseToolParameters({ [name]: parameter.default }, tool, errors);
  return errors[0] === undefined ? null : `its default ${errors[0].message}`;
}

function isPattern(text: string): boolean {
  try {
    new RegExp(`^(?:${text})$`, 'u');
    return true;
  } catch {
    return false;
  }
}
