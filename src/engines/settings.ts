import Type, { type TProperties, type TStringOptions } from 'typebox';

/** A group of keys. Leaving the whole group out gives each key its default. */
export function section<Fields extends TProperties>(description: string, fields: Fields) {
  return Type.Object(fields, { description, additionalProperties: false, default: {} });
}

export const positiveInt = (defaultValue: number, description: string) =>
  Type.Integer({ minimum: 1, default: defaultValue, description });

/** It cannot be empty. */
export const optionalText = (description: string, options: TStringOptions = {}) =>
  Type.Optional(Type.String({ minLength: 1, ...options, description }));

export const flag = (defaultValue: boolean, description: string) =>
  Type.Boolean({ default: defaultValue, description });
