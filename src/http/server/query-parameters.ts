import { closest } from 'fastest-levenshtein';
import type { FastifyInstance, FastifyRequest, preValidationHookHandler, RouteOptions } from 'fastify';
import type { TObject } from 'typebox';
import { BursarError } from '../../domain/errors.ts';
import { toPrintableName } from '../request/request-errors.ts';

const maxReportedNames = 20;

/**
 * Rejects query parameters that the schema of the route does not have, on every route that is added afterwards: a
 * misspelt filter would otherwise return everything. A route whose schema allows additional
 * properties is exempt. Also rejects numbers that are not decimal. The pages under /docs/ accept
 * any parameter.
 */
export function checkQueryParameters(app: FastifyInstance): void {
  app.addHook('onRoute', (route) => {
    if (route.url === '/docs' || route.url.startsWith('/docs/')) return;
    const { querystring } = route.schema ?? {};
    if ((querystring as { additionalProperties?: unknown } | undefined)?.additionalProperties === true) return;
    // A route with a compiler of its own parses its query itself.
    const numbers = route.validatorCompiler === undefined ? findNumbers(querystring) : [];
    route.preValidation = [
      requireKnownParameters(querystring),
      ...(numbers.length === 0 ? [] : [requireDecimalNumbers(numbers)]),
      ...toArray(route.preValidation),
    ];
  });
}

function findNumbers(querystring: unknown): string[] {
  const properties = (querystring as TObject | undefined)?.properties ?? {};
  const types = ['integer', 'number'];
  return Object.keys(properties).filter((name) => types.includes((properties[name] as { type?: string })?.type ?? ''));
}

const decimalNumber = /^[+-]?\d+(\.\d+)?$/;

/** The validator converts text as JavaScript does: 0x10 would be 16, and 1e3 would be 1000. */
function requireDecimalNumbers(names: readonly string[]): preValidationHookHandler {
  return (request, _reply, done) => {
    const query = request.query as Record<string, unknown>;
    const wrong = names.filter((name) => typeof query[name] === 'string' && !decimalNumber.test(query[name]));
    if (wrong.length === 0) return done();
    const fields = wrong.map((field) => ({ field, message: 'must be a decimal number, such as 100' }));
    const list = fields.map(({ field, message }) => `"${field}" ${message}`).join('; ');
    done(new BursarError('bad_request', `The query is not valid: ${list}.`, { fields }) as Error);
  };
}

/** Uses a callback: an async hook costs every request another turn of the event loop. */
function requireKnownParameters(querystring: unknown): preValidationHookHandler {
  const known = new Set(Object.keys((querystring as TObject | undefined)?.properties ?? {}));
  return (request, _reply, done) => {
    for (const name in request.query as object) {
      if (!known.has(name)) return done(unknownParameters(request, [...known]) as Error);
    }
    done();
  };
}

function unknownParameters({ query }: FastifyRequest, known: readonly string[]): BursarError {
  const unknown = Object.keys(query as object).filter((name) => !known.includes(name));
  const fields = unknown.slice(0, maxReportedNames).map((name) => {
    const hint = known.length === 0 ? 'this path has none.' : `did you mean ${closest(name, known)}?`;
    return { field: toPrintableName(name), message: `is not a known query parameter; ${hint}` };
  });
  const list = fields.map(({ field, message }) => `"${field}" ${message}`).join(' ');
  const advice = known.length === 0 ? 'Remove the query.' : `Known are ${known.join(', ')}.`;
  return new BursarError('bad_request', `The query is not valid: ${list} ${advice}`, { fields });
}

function toArray(hooks: RouteOptions['preValidation']): preValidationHookHandler[] {
  if (hooks === undefined) return [];
  return Array.isArray(hooks) ? hooks : [hooks];
}
