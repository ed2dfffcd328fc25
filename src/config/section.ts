import Type, { type TProperties } from 'typebox';

/** A part of the configuration, which may be left out as a whole. */
export function section<Fields extends TProperties>(description: string, fields: Fields) {
  return Type.Object(fields, { description, additionalProperties: false, default: {} });
}

export const positive = (value: number, description: string) =>
  Type.Integer({ minimum: 1, default: value, description });
