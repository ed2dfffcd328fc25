import type { Static, TObject, TProperties } from 'typebox';

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
