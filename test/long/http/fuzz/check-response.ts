import assert from 'node:assert/strict';
import { contentType, createValidatorLookup, findResponse, type OpenApi } from '../../../support/contract.ts';
import type { FuzzRequest } from './generate-request.ts';
import type { FuzzResponse } from './raw-client.ts';

/** Returns a function that asserts that a response is one that the document describes. */
export function createResponseCheck(document: OpenApi) {
  const findValidator = memoize(createValidatorLookup(document));
  const templates = Object.keys(document.paths).map((template) => {
    const pattern = template
      .replace(/\/?$/, '/?')
      .replace('{path}', '.+')
      .replace(/\{\w+\}/g, '[^/]+');
    return { template, pattern: new RegExp(`^${pattern}$`) };
  });
  const findTemplate = memoize((path: string) => templates.find(({ pattern }) => pattern.test(path))?.template);

  return ({ method, target }: FuzzRequest, response: FuzzResponse): void => {
    const { status, headers, body } = response;
    assert.ok(status < 500, 'an error of the server');
    assert.match(headers.get('x-request-id') ?? '', /^[\w.-]{1,64}$/);
    assert.equal(headers.get('x-content-type-options'), 'nosniff');
    const [path = ''] = target.split('?', 1);
    const template = findTemplate(path);
    // OAuth has an error form of its own.
    if (status >= 400 && !(template?.startsWith('/oauth/') && contentType(response) === 'application/json')) {
      checkProblem(method, response);
      return;
    }
    const describedMethod = method === 'HEAD' ? 'get' : method.toLowerCase();
    const operation = template && document.paths[template]?.[describedMethod];
    assert.ok(operation, `success, although the document has no ${method} of this path`);
    const described = findResponse(document, operation, status);
    assert.ok(described, 'a status that the document does not describe');
    const types = Object.keys(described.content ?? {});
    if (types.length === 0 || method === 'HEAD') return;
    const type = contentType(response);
    // A file has the media type of its name.
    if (!types.includes(type) && types.includes('application/octet-stream')) return;
    assert.ok(types.includes(type), `the media type ${type} is not described`);
    if (type !== 'application/json') return;
    const validate = findValidator(template, describedMethod, status, type);
    assert.ok(validate?.(body), JSON.stringify(validate?.errors));
  };

  function checkProblem(method: string, { status, headers, body, text }: FuzzResponse): void {
    assert.equal(headers.get('content-type'), 'application/problem+json');
    if (method === 'HEAD') return;
    const validate = findValidator(undefined, undefined, status, 'application/problem+json');
    assert.ok(validate?.(body), JSON.stringify(validate?.errors));
    const { status: told, detail, request_id: requestId } = body as Record<string, unknown>;
    assert.deepEqual([told, requestId], [status, headers.get('x-request-id')]);
    assert.match(String(detail), /\w/);
    assert.doesNotMatch(text, /\bat .*\.(ts|js|mjs):\d+|node_modules|\/src\//, 'no stack trace and no source path');
    assert.ok(text.length < 20_000, `a problem of ${text.length} characters`);
    if (status === 405) assert.match(headers.get('allow') ?? '', /[A-Z]/);
  }
}

/** Finding the schema of a response takes longer than the check of a short response. */
function memoize<Args extends (string | number | undefined)[], T>(compute: (...args: Args) => T): (...args: Args) => T {
  const results = new Map<string, T>();
  return (...args) => {
    const key = args.join(' ');
    if (!results.has(key)) results.set(key, compute(...args));
    return results.get(key) as T;
  };
}
