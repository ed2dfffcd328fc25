// Prints the module that replaces src/config/schema-validators.ts in the build: the same validators, already compiled.
import { Ajv } from 'ajv';
import standalone from 'ajv/dist/standalone/index.js';
import { ajvOptions, schemas } from '../src/config/schema-validators.ts';

const ajv = new Ajv({ ...ajvOptions, schemas, code: { source: true, esm: true } });
const names = Object.keys(schemas);
const code = standalone.default(ajv, Object.fromEntries(names.map((name) => [name, name])));
process.stdout.write(`${code}
const validators = { ${names.join(', ')} };
export const schemaValidator = (name) => validators[name];
`);
