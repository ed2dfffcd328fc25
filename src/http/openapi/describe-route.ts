import type { TSchema } from 'typebox';
import { type HeaderName, responseHeaders } from './response-headers.ts';

interface ResponseDescription {
  description: string;
  headers?: Record<string, TSchema>;
  content?: Record<string, { schema: TSchema; example?: unknown }>;
  /** A response without a body. */
  type?: 'null';
}

/** A schema alone describes a JSON response. */
type Responses = Record<number, TSchema | ResponseDescription>;

/**
 * The schema of a route for the OpenAPI document. Generated clients use the operation id as the name of a function. The
 * document adds the error responses, which are the same for all routes.
 */
export function describeRoute(tag: string, operationId: string, summary: string, response: Responses) {
  return { tags: [tag], operationId, summary, response };
}

export function describeJson(schema: TSchema, description: string, headers: readonly HeaderName[] = []) {
  return { description, headers: selectHeaders(headers), content: { 'application/json': { schema } } };
}

/** JSON with an entity tag, or 304 for a caller that has this version. */
export function describeVersioned(schema: TSchema, description: string, headers: readonly HeaderName[] = []) {
  return { 200: describeJson(schema, description, ['ETag', ...headers]), 304: notModified };
}

export function selectHeaders(names: readonly HeaderName[]): Record<string, TSchema> {
  return Object.fromEntries(names.map((name) => [name, responseHeaders[name]]));
}

export const notModified = {
  type: 'null',
  description: 'Not changed since the version in `If-None-Match`.',
  headers: selectHeaders(['ETag']),
} as const satisfies ResponseDescription;
