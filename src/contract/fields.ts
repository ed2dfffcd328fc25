import Type, { type TSchema } from 'typebox';
import type { HpcSystem } from '../domain/systems/system.ts';

export const timestamp = Type.String({
  format: 'date-time',
  description: 'ISO 8601, UTC.',
  examples: ['2026-01-31T12:00:00.000Z'],
});
export const nullableTimestamp = Type.Union([timestamp, Type.Null()]);
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

/** Null if it does not apply. */
export const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

export const nullableString = (description: string) => Type.Union([Type.String(), Type.Null()], { description });
export const nullableTime = (description: string) =>
  Type.Union([Type.String({ format: 'date-time' }), Type.Null()], { description });
export const nullableNumber = (description: string) => Type.Union([Type.Number(), Type.Null()], { description });
export const nullableInteger = (description: string) => Type.Union([Type.Integer(), Type.Null()], { description });
export const nullableEnum = (values: string[], description: string) =>
  Type.Union([Type.Enum(values), Type.Null()], { description });
