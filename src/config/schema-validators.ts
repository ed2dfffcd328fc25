import { Ajv, type Options, type ValidateFunction } from 'ajv';
import type { TSchema } from 'typebox';
import { engines } from '../engines/registry.ts';
import { ConfigSchema } from './schema.ts';

/** `config` is the whole file. The others are those of each engine: its keys, and the `site` of projects. */
export const schemas: Readonly<Record<string, TSchema>> = {
  config: ConfigSchema,
  ...Object.fromEntries(
    Object.entries(engines).flatMap(([kind, { schema }]) => {
      const { site } = schema.properties;
      return [[kind, schema], ...(site === undefined ? [] : [[`${kind}_site`, site]])];
    }),
  ),
};

/** Ajv need not validate our own schemas. */
export const ajvOptions: Options = {
  allErrors: true,
  useDefaults: true,
  strict: false,
  verbose: true,
  validateSchema: false,
};

// Nor need it optimise code that runs once: that takes longer than everything else here.
const ajv = new Ajv({ ...ajvOptions, code: { optimize: false } });

/**
 * Returns the validator of a schema, compiled on first use. The build replaces this module by one with the compiled code
 * (`scripts/compile-config-schema.ts`): compiling takes longer than the rest of a short command.
 */
export function schemaValidator(name: string): ValidateFunction | undefined {
  const schema = schemas[name];
  return schema && ajv.compile(schema);
}
