import createFactory from '@fastify/ajv-compiler';
import type { FastifySchemaCompiler } from 'fastify';

type Factory = ReturnType<typeof createFactory>;
type Compiler = FastifySchemaCompiler<unknown>;
type Validate = ReturnType<Compiler>;

/** Returns the same compiler for the same schemas. */
const createCompiler = createFactory();

/**
 * Compiles each validator on first use: most are never used, and compiling all of them takes a tenth of the start. Even the
 * compiler is created then, because Fastify requests one for every route. Header names in schemas must be in lower case:
 * Fastify converts them only for its own validators.
 */
export const lazyValidators = ((...args: Parameters<Factory>) => {
  let compile: Compiler | undefined;
  return (definition: Parameters<Compiler>[0]): Validate => {
    let compiled: Validate | undefined;
    const validate: Validate = (data) => {
      // The type of the compiler lacks the route definition that it accepts.
      compile ??= createCompiler(...args) as unknown as Compiler;
      compiled ??= compile(definition);
      const result = compiled(data);
      validate.errors = compiled.errors ?? null;
      return result;
    };
    return validate;
  };
}) as unknown as Factory;
