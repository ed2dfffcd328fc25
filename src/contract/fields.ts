import Type from 'typebox';

export const timestamp = Type.String({ description: 'ISO 8601, UTC.', examples: ['2026-01-31T12:00:00.000Z'] });
export const nullableTimestamp = Type.Union([timestamp, Type.Null()]);
export const resource = Type.Enum(['time', 'space']);

export const nullableString = (description: string) => Type.Union([Type.String(), Type.Null()], { description });
export const nullableNumber = (description: string) => Type.Union([Type.Number(), Type.Null()], { description });
export const nullableInteger = (description: string) => Type.Union([Type.Integer(), Type.Null()], { description });
