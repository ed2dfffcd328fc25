import Type, { type TProperties } from 'typebox';

/** A group of keys. Leaving the whole group out gives each key its default. */
export function section<Fields extends TProperties>(description: string, fields: Fields) {
  return Type.Object(fields, { description, additionalProperties: false, default: {} });
}

export const positiveInt = (defaultValue: number, description: string) =>
  Type.Integer({ minimum: 1, default: defaultValue, description });
