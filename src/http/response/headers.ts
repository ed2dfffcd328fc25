import Type, { type TSchema } from 'typebox';

/** The response headers that the OpenAPI document describes. */
export const responseHeaders = {
  'X-Request-Id': Type.String({ description: 'Identifies the request in the logs of the server.' }),
  RateLimit: Type.String({
    description: 'The rest of the tightest rate limit, and the seconds until all of it is available again.',
    examples: ['"token";r=4999;t=1'],
  }),
  'RateLimit-Policy': Type.String({
    description: 'The rate limits of the caller: requests (`q`) in a window of seconds (`w`).',
    examples: ['"user";q=10000;w=10, "token";q=5000;w=10'],
  }),
  'Retry-After': Type.Integer({
    description: 'Seconds to wait before the next attempt. With 429, 503 and the code `idempotency_key_in_use`.',
    examples: [1],
  }),
  'WWW-Authenticate': Type.String({ examples: ['Bearer realm="bursar"'] }),
  Allow: Type.String({ description: 'With 405: the methods of the path.', examples: ['GET, HEAD'] }),
  ETag: Type.String({
    description:
      'Identifies this version. Sent back in `If-None-Match`, it saves the transfer of an unchanged response.',
    examples: ['"n4bQgYhMfWWaL-qgxVrQFa"'],
  }),
  Link: Type.String({
    description: 'The next page, if there is one.',
    examples: ['</jobs/?limit=100&cursor=YWZ0ZXI6MTAw>; rel="next"'],
  }),
  Location: Type.String({ description: 'The path of the new resource.' }),
  'Last-Modified': Type.String({ examples: ['Sat, 31 Jan 2026 12:00:00 GMT'] }),
  'Accept-Ranges': Type.Literal('bytes'),
  'Content-Range': Type.String({
    description: 'The bytes in the response and the size of the file.',
    examples: ['bytes 0-99/1234'],
  }),
  'Content-Disposition': Type.String({ examples: ['attachment; filename="result.txt"'] }),
} satisfies Record<string, TSchema>;

export type HeaderName = keyof typeof responseHeaders;

const commonHeaders: readonly HeaderName[] = ['X-Request-Id', 'RateLimit', 'RateLimit-Policy'];

/** The headers of a response, with those that every response has. */
export const toHeaderReferences = (headers: readonly HeaderName[]) =>
  Object.fromEntries([...headers, ...commonHeaders].map((name) => [name, { $ref: `#/components/headers/${name}` }]));

/** For the components of the document. */
export const headerComponents = () =>
  Object.fromEntries(
    Object.entries(responseHeaders).map(([name, header]) => {
      const { description, examples, ...schema } = header as TSchema & { description?: string; examples?: unknown[] };
      return [name, { description, schema, example: examples?.[0] }];
    }),
  );
