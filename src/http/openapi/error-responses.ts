import { BursarError, type ErrorCode } from '../../domain/errors.ts';
import type { Operation } from '../operation.ts';
import { type HeaderName, toHeaderReferences } from '../response/headers.ts';
import { ProblemSchema, toProblem } from '../response/problem.ts';

interface ErrorResponse {
  status: string;
  /** The operations that have it: those that need a token, those whose path has parameters. Default: all. */
  of?: 'protected' | 'parameterized';
  description: string;
  headers: readonly HeaderName[];
  example: [code: ErrorCode, detail: string];
}

/** The error responses of all operations, by their names in the document. */
const errorResponses: Record<string, ErrorResponse> = {
  Unauthorized: {
    status: '401',
    of: 'protected',
    description: 'There is no token, or it is not valid.',
    headers: ['WWW-Authenticate'],
    example: ['token_missing', 'Send the header Authorization with a bearer token.'],
  },
  Forbidden: {
    status: '403',
    of: 'protected',
    description:
      'The role of the caller, or the scopes of the token, do not allow the request. `x-action` is the action.',
    headers: ['WWW-Authenticate'],
    example: ['insufficient_scope', 'This token does not have the scope jobs:read. Use a token that has it.'],
  },
  NotFound: {
    status: '404',
    of: 'parameterized',
    description: 'The path names something that does not exist, or that the caller cannot see.',
    headers: [],
    example: ['system_unknown', 'There is no HPC system with this name. Use one of hpc_one, hpc_two.'],
  },
  TooManyRequests: {
    status: '429',
    description:
      'A rate limit, or a limit on unfinished jobs or open streams, is reached. Repeat the request after `Retry-After`.',
    headers: ['Retry-After'],
    example: ['too_many_requests', 'The limit is 5000 requests with one token within 10 s.'],
  },
  ClientError: {
    status: '4XX',
    description: 'The request is not valid, not allowed, or not possible now. `code` says why.',
    headers: ['Allow', 'Retry-After'],
    example: ['bad_request', 'The query is not valid: "limit" must be at least 1.'],
  },
  Unavailable: {
    status: '503',
    description: 'The service or the HPC system is unavailable for some time. Repeat the request after `Retry-After`.',
    headers: ['Retry-After'],
    example: ['database_unavailable', 'The database is not available now. Try again.'],
  },
  ServerError: {
    status: '5XX',
    description: 'An error of the server. Report it to the operators with its `request_id`.',
    headers: [],
    example: ['internal', 'The request failed because of an internal error.'],
  },
};

/** For the components of the document. */
export const errorComponents = () =>
  Object.fromEntries(
    Object.entries(errorResponses).map(([name, { description, headers, example }]) => {
      const { body } = toProblem(new BursarError(...example), '2486fc51-56d2-4aa0-9cc1-c0392e44d738');
      const content = { 'application/problem+json': { schema: ProblemSchema, example: JSON.parse(body) } };
      return [name, { description, headers: toHeaderReferences(headers), content }];
    }),
  );

/** For an operation: by status. */
export const errorReferences = (operation: Operation) =>
  Object.fromEntries(
    Object.entries(errorResponses)
      .filter(([, { of }]) => of !== 'protected' || needsToken(operation))
      .filter(([, { of }]) => of !== 'parameterized' || operation.route.includes('{'))
      .map(([name, { status }]) => [status, { $ref: `#/components/responses/${name}` }]),
  );

export const needsToken = ({ access, checks }: Operation) => typeof access === 'object' || checks !== undefined;
