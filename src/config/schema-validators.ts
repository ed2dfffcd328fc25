import { Ajv, type Options, type ValidateFunction } from 'ajv';
import { ConfigSchema } from './schema.ts';
import { engineSchemas } from './system-schema.ts';

/** `config` is the whole file. The others are the kinds of engines, each with its own keys and defaults. */
export const schemas = { config: ConfigSchema, ...engineSchemas };

export type SchemaName = keyof typeof schemas;

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
export function schemaValidator(name: SchemaName): ValidateFunction {
  return ajv.compile(schemas[name]);
}
