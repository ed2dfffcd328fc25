import { BursarError, type FieldError } from '../errors.ts';
import type { HpcSystem, JobResources, Tool } from '../systems/system.ts';
import type { RequestedJob } from './command.ts';
import type { JobRequest } from './job.ts';
import { type Payload, parseNumber, parseTags, parseText } from './payload-fields.ts';
import { buildToolArgv, parseToolParameters } from './tool-command.ts';

/** Limits the error list, so that the response cannot be much larger than the request. */
const maxReportedErrors = 20;
const maxTitleLength = 256;
const maxCommandLength = 8192;
export const commonFields = ['node_number', 'core_number', 'runtime', 'title', 'tags'];

/** The part of a system that says which Payloads it takes. */
export type PayloadRules = Pick<
  HpcSystem,
  'name' | 'kind' | 'commandLanguage' | 'runtimePolicy' | 'defaults' | 'tools'
> & {
  limits: JobResources;
};

/**
 * Parses a Payload header and applies the system's limits, defaults and runtime policy.
 * Throws `invalid_payload` with the errors of all fields, not only the first one.
 */
export function parsePayload(text: string, system: PayloadRules): JobRequest {
  const payload = parseObject(text);
  const errors: FieldError[] = [];
  const { limits, defaults } = system;

  const nodesRule = { isInteger: true, default: defaults.nodes, min: 1, max: limits.nodes };
  const nodes = parseNumber(payload, 'node_number', nodesRule, errors);
  const coresRule = { isInteger: true, default: defaults.coresPerNode, min: 1, max: limits.coresPerNode };
  const coresPerNode = parseNumber(payload, 'core_number', coresRule, errors);
  const runtimeHours = parseRuntime(payload, system, errors);
  const title = parseText(payload, 'title', { default: '', maxLength: maxTitleLength }, errors);
  const tags = parseTags(payload, errors);
  const job = { title, nodes, coresPerNode, runtimeHours };
  const program =
    system.kind === 'batch'
      ? parseBatchProgram(payload, system, job, errors)
      : parseToolProgram(payload, system, errors);

  if (errors.length > 0) {
    const reported = errors.slice(0, maxReportedErrors);
    const more = errors.length > reported.length ? `; and ${errors.length - reported.length} more` : '';
    const list = reported.map((error) => `${error.field}: ${error.message}`).join('; ');
    throw new BursarError('invalid_payload', `The Payload header is not valid. ${list}${more}.`, { fields: reported });
  }
  return { ...job, ...program, ...(tags.length > 0 ? { tags } : {}) };
}

type Program = Pick<JobRequest, 'command' | 'tool' | 'entry' | 'params'>;
/** Stands in for an invalid command until `parsePayload` throws. */
const invalidProgram: Program = { command: { kind: 'argv', argv: [] }, tool: null, entry: null };

function parseObject(text: string): Payload {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new BursarError(
      'invalid_payload',
      'The Payload header is not JSON. Send one JSON object, such as {"title": "My job", "runtime": "1.0"}.',
      { cause },
    );
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new BursarError(
      'invalid_payload',
      'The Payload header must be a JSON object, such as {"title": "My job", "runtime": "1.0"}.',
    );
  }
  return value as Payload;
}

function parseRuntime(payload: Payload, system: PayloadRules, errors: FieldError[]): number {
  const maxHours = system.limits.runtimeHours;
  const rule = { default: system.defaults.runtimeHours, above: 0 };
  const requestedHours = parseNumber(payload, 'runtime', rule, errors);
  if (requestedHours <= maxHours) return requestedHours;
  if (system.runtimePolicy === 'clamp') return maxHours;
  errors.push({ field: 'runtime', message: `must be at most ${maxHours} hours on ${system.name}` });
  return maxHours;
}

function parseBatchProgram(payload: Payload, system: PayloadRules, job: RequestedJob, errors: FieldError[]): Program {
  // The values of invalid fields are placeholders, which must not be compared with anything.
  const isComparable = errors.length === 0;
  rejectUnknownFields(payload, [...commonFields, 'command'], system, errors);
  const text = parseText(payload, 'command', { maxLength: maxCommandLength }, errors);
  if (text === '') return invalidProgram;
  const parsed = system.commandLanguage.parse(text, isComparable ? job : undefined);
  if (parsed.ok) return { command: parsed.command, tool: null, entry: null };
  errors.push({ field: 'command', message: parsed.error });
  return invalidProgram;
}

function parseToolProgram(payload: Payload, system: PayloadRules, errors: FieldError[]): Program {
  const name = parseText(payload, 'tool', { maxLength: 64 }, errors);
  const tool: Tool | undefined = Object.hasOwn(system.tools, name) ? system.tools[name] : undefined;
  rejectUnknownFields(payload, [...commonFields, 'tool', ...Object.keys(tool?.parameters ?? {})], system, errors);
  if (tool === undefined) {
    const toolNames = Object.keys(system.tools).join(', ');
    if (name !== '')
      errors.push({ field: 'tool', message: `is not a tool of ${system.name}; use one of ${toolNames}` });
    return invalidProgram;
  }
  const values = parseToolParameters(payload, tool, errors);
  const params = Object.fromEntries(Object.entries(values).filter(([field]) => Object.hasOwn(payload, field)));
  return {
    command: { kind: 'argv', argv: buildToolArgv(tool, values) },
    tool: name,
    entry: tool.entry ?? null,
    params,
  };
}

function rejectUnknownFields(
  payload: Payload,
  allowed: readonly string[],
  system: PayloadRules,
  errors: FieldError[],
): void {
  for (const field of Object.keys(payload)) {
    if (allowed.includes(field)) continue;
    const message =
      field === 'command' || field === 'tool'
        ? `is not supported by ${system.name}; use ${system.kind === 'batch' ? 'command' : 'tool'} instead`
        : `is not a known field; use one of ${allowed.join(', ')}`;
    errors.push({ field: field.slice(0, 64), message });
  }
}
