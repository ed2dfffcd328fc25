import createFactory from '@fastify/ajv-compiler';
import type { FastifySchemaCompiler } from 'fastify';

type Factory = ReturnType<typeof createFactory>;
type Compiler = FastifySchemaCompiler<unknown>;
type Validate = ReturnType<Compiler>;

/**
 * Makes each validator when it is first needed: most never are, and all of them take a tenth of the start. In schemas the names
 * of headers are in small letters: Fastify sees to that only where it makes the validators itself.
 */
export const lazyValidators = ((...from: Parameters<Factory>) => {
  // What it makes takes the definition of a route, which its own types do not know.
  const compile = createFactory()(...from) as unknown as Compiler;
  return (definition: Parameters<Compiler>[0]): Validate => {
    let made: Validate | undefined;
    const validate: Validate = (data) => {
      made ??= compile(definition);
      const result = made(data);
      validate.errors = made.errors ?? null;
      return result;
    };
    return validate;
  };
}) as unknown as Factory;
