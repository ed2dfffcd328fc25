import { BursarError, type FieldError } from '../errors.ts';
import type { HpcSystem, Tool } from '../systems/system.ts';
import { parseBatchCommand } from './batch-command.ts';
import type { JobCommand, JobRequest } from './job.ts';
import { parseIntegerField, parseNumberField, parseTextField } from './payload-fields.ts';
import { buildToolArgv, parseToolParameters } from './tool-command.ts';

/** Faults that are told at once; a refusal must not be larger than what it refuses. */
const mostTold = 20;
const titleLength = 256;
const commandLength = 8192;
const commonFields = ['node_number', 'core_number', 'runtime', 'title'];

/**
 * The text of a Payload header as a job request, with the system's limits, defaults and runtime policy applied.
 * Throws `invalid_payload` that names every field at fault at once.
 */
export function parsePayload(text: string, system: HpcSystem): JobRequest {
  const payload = parseObject(text);
  const errors: FieldError[] = [];
  const { limits, defaults } = system;

  const nodes = parseIntegerField(
    payload,
    'node_number',
    { default: defaults.nodes, min: 1, max: limits.nodes },
    errors,
  );
  const coresPerNode = parseIntegerField(
    payload,
    'core_number',
    { default: defaults.coresPerNode, min: 1, max: limits.coresPerNode },
    errors,
  );
  const runtimeHours = readRuntime(payload, system, errors);
  const title = parseTextField(payload, 'title', { default: '', maxLength: titleLength }, errors);
  const runs = system.kind === 'batch' ? readBatchCommand(payload, system, errors) : readTool(payload, system, errors);

  if (errors.length > 0) {
    const told = errors.slice(0, mostTold);
    const more = errors.length > told.length ? `; and ${errors.length - told.length} more` : '';
    const list = told.map((error) => `${error.field}: ${error.message}`).join('; ');
    throw new BursarError('invalid_payload', `The Payload is not acceptable. ${list}${more}.`, { fields: told });
  }
  return { title, nodes, coresPerNode, runtimeHours, ...runs };
}

type Payload = Readonly<Record<string, unknown>>;
type Runs = Pick<JobRequest, 'command' | 'tool' | 'entry'>;
const nothing: JobCommand = { kind: 'argv', argv: [] };

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
    throw new BursarError('invalid_payload', 'The Payload header must be a JSON object, with its fields by name.');
  }
  return value as Payload;
}

function readRuntime(payload: Payload, system: HpcSystem, errors: FieldError[]): number {
  const most = system.limits.runtimeHours;
  const asked = parseNumberField(payload, 'runtime', { default: system.defaults.runtimeHours, above: 0 }, errors);
  if (asked <= most) return asked;
  if (system.runtimePolicy === 'clamp') return most;
  errors.push({ field: 'runtime', message: `must be at most ${most} hours on ${system.name}` });
  return most;
}

function readBatchCommand(payload: Payload, system: HpcSystem, errors: FieldError[]): Runs {
  refuseUnknownFields(payload, [...commonFields, 'command'], system, errors);
  const text = parseTextField(payload, 'command', { maxLength: commandLength }, errors);
  if (text === '') return { command: nothing, tool: null, entry: null };
  const parsed = parseBatchCommand(text);
  if (parsed.ok) return { command: parsed.command, tool: null, entry: null };
  errors.push({ field: 'command', message: parsed.problem });
  return { command: nothing, tool: null, entry: null };
}

function readTool(payload: Payload, system: HpcSystem, errors: FieldError[]): Runs {
  const name = parseTextField(payload, 'tool', { maxLength: 64 }, errors);
  const tool: Tool | undefined = Object.hasOwn(system.tools, name) ? system.tools[name] : undefined;
  refuseUnknownFields(payload, [...commonFields, 'tool', ...Object.keys(tool?.parameters ?? {})], system, errors);
  if (tool === undefined) {
    const known = Object.keys(system.tools).join(', ');
    if (name !== '') errors.push({ field: 'tool', message: `is not one of the tools of ${system.name}: ${known}` });
    return { command: nothing, tool: null, entry: null };
  }
  const values = parseToolParameters(payload, tool, errors);
  return { command: { kind: 'argv', argv: buildToolArgv(tool, values) }, tool: name, entry: tool.entry ?? null };
}

function refuseUnknownFields(
  payload: Payload,
  known: readonly string[],
  system: HpcSystem,
  errors: FieldError[],
): void {
  for (const field of Object.keys(payload)) {
    if (known.includes(field)) continue;
    const message =
      field === 'command' || field === 'tool'
        ? `does not apply to ${system.name}, which takes ${system.kind === 'batch' ? 'command' : 'tool'}`
        : `is not a known field; known are ${known.join(', ')}`;
    errors.push({ field: field.slice(0, 64), message });
  }
}
