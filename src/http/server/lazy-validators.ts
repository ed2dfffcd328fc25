import createFactory from '@fastify/ajv-compiler';
import type { FastifySchemaCompiler } from 'fastify';

type Factory = ReturnType<typeof createFactory>;
type Compiler = FastifySchemaCompiler<unknown>;
type Validate = ReturnType<Compiler>;

/**
 * Compiles each validator on first use: most are never used, and compiling all of them takes a tenth of the start. Header
 * names in schemas must be in lower case: Fastify converts them only for its own validators.
 */
export const lazyValidators = ((...args: Parameters<Factory>) => {
  // The type of the compiler lacks the route definition that it accepts.
  const compile = createFactory()(...args) as unknown as Compiler;
  return (definition: Parameters<Compiler>[0]): Validate => {
    let compiled: Validate | undefined;
    const validate: Validate = (data) => {
      compiled ??= compile(definition);
      const result = compiled(data);
      validate.errors = compiled.errors ?? null;
      return result;
    };
    return validate;
  };
}) as unknown as Factory;
