import Type, { type Static, type TObject, type TProperties, type TSchema } from 'typebox';
import type { HpcSystem } from '../domain/systems/system.ts';

export const timestamp = Type.String({
  format: 'date-time',
  description: 'ISO 8601, UTC.',
  examples: ['2026-01-31T12:00:00.000Z'],
});
/** For fields with a description of their own. */
export const time = Type.String({ format: 'date-time' });
export const resource = Type.Enum(['time', 'space']);
export const account = Type.Enum(['pool', 'cap'], {
  description: '`pool`: the quota of the project. `cap`: the quota of the user.',
});

/** The schema is known by its name only, because stages are configured. */
export const stage = Type.Unsafe<string>(Type.Ref('Stage'));
/** Stages are configured, in the words of each HPC system. */
export function stageSchema(systems: readonly HpcSystem[]): TSchema {
  const names = new Set(systems.flatMap(({ stages }) => Object.values(stages)));
  const words = systems.map(({ name, stages }) => `${name}: ${Object.values(stages).join(', ')}`);
  return Type.Enum([...names], { $id: 'Stage', description: `Stage of a job. ${words.join('; ')}.` });
}

/** An object with exactly these fields, which has a name in the OpenAPI document. */
export const namedObject = <Fields extends TProperties>($id: string, fields: Fields, example: object) =>
  Type.Object(fields, { $id, additionalProperties: false, examples: [completeExample(fields, example)] });

/** Adds the fields that an example leaves out: those that `exampleOf` finds. */
export function completeExample(fields: TProperties, example: object): object {
  const examples = Object.entries(fields).map(([name, schema]) => [name, exampleOf(schema)]);
  return { ...Object.fromEntries(examples), ...example };
}

interface ExampleSource {
  examples?: readonly unknown[];
  anyOf?: readonly { type?: string }[];
  items?: ExampleSource;
  enum?: readonly unknown[];
  type?: string;
}

/** The example of a schema or of the items of a list, or else null, false or the first of its values. */
export function exampleOf(schema: TSchema): unknown {
  const { examples, anyOf, items, enum: values, type } = schema as ExampleSource;
  if (examples !== undefined) return examples[0];
  if (items?.examples !== undefined) return [items.examples[0]];
  if (anyOf?.some((each) => each.type === 'null')) return null;
  return type === 'boolean' ? false : values?.[0];
}

export const requestBody = <Fields extends TProperties>(fields: Fields, example: object) =>
  Type.Object(fields, { additionalProperties: false, examples: [example] });

/** Null if it does not apply. */
export const nullable = <T extends TSchema>(schema: T, description?: string) =>
  Type.Union([schema, Type.Null()], description === undefined ? {} : { description });

/** The patterns of texts in requests, each with the rule that a message states. */
export const patterns = {
  reason: { pattern: '\\S\\s*\\S\\s*\\S', rule: 'must have at least three characters' },
  visibleText: { pattern: '\\S', rule: 'must not be blank' },
  oneLine: { pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$', rule: 'must not have control characters' },
  user: { pattern: '^\\d{1,20}$', rule: 'must be the number of a user' },
  projectName: {
    pattern: '^[a-z0-9][a-z0-9_-]{0,63}$',
    rule: 'must have 1 to 64 lower-case letters, digits, "-" and "_", and begin with a letter or digit',
  },
  jobIdPrefix: {
    pattern: '^[\\w-]{1,100}$',
    rule: 'must be the beginning of a job id: 1 to 100 letters, digits, "-" and "_"',
  },
  eventPosition: {
    pattern: '^(latest|\\d{1,15})?$',
    rule: 'must be the id of an event that you have received, or `latest`',
  },
  offset: { pattern: '^\\d{1,15}$', rule: 'must be a number of bytes' },
} as const;

/**
 * Creates a serializer from the schema of a flat object: exactly its fields, in the order of the schema. Fields of type
 * `number` always have a fraction (`2.0`), as the API contract requires; JSON.stringify would drop it.
 */
export function createJsonWriter<Fields extends TProperties>(
  schema: TObject<Fields>,
): (value: Static<TObject<Fields>>) => string {
  const writers = Object.entries(schema.properties).map(([name, field]) => {
    const key = `${JSON.stringify(name)}:`;
    const isFloat = 'type' in field && field.type === 'number';
    return (value: Record<string, unknown>) => key + (isFloat ? formatFloat(value[name]) : JSON.stringify(value[name]));
  });
  return (value) => `{${writers.map((write) => write(value as Record<string, unknown>)).join(',')}}`;
}

function formatFloat(value: unknown): string {
  if (typeof value !== 'number' || !Number.isFinite(value)) throw new Error(`not a finite number: ${String(value)}`);
  const text = String(value);
  return /[.e]/.test(text) ? text : `${text}.0`;
}

/** ISO 8601 in UTC, with milliseconds. */
export function toIsoTime(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

export const toIsoTimeOrNull = (epochMs: number | null) => (epochMs === null ? null : toIsoTime(epochMs));
