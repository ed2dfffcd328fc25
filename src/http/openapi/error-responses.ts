import { BursarError, type ErrorCode } from '../../domain/errors.ts';
import { toProblem } from '../response/problem.ts';
import type { ResponseObject } from './document-types.ts';
import type { HeaderName } from './response-headers.ts';

interface ErrorResponse {
  description: string;
  headers: HeaderName[];
  example: [code: ErrorCode, detail: string];
}

const responses: Record<string, ErrorResponse> = {
  Unauthorized: {
    description: 'There is no token, or it is not valid.',
    headers: ['WWW-Authenticate'],
    example: ['token_missing', 'Send the header Authorization with a bearer token.'],
  },
  TooManyRequests: {
    description:
      'A rate limit, or a limit on unfinished jobs or open streams, is reached. Repeat the request after `Retry-After`.',
    headers: ['Retry-After'],
    example: ['too_many_requests', 'The limit is 5000 requests with one token within 10 s.'],
  },
  ClientError: {
    description: 'The request is not valid, not allowed, or not possible now. `code` says why.',
    headers: ['Allow', 'Retry-After'],
    example: ['system_unknown', 'There is no HPC system with this name. Use one of hpc_one, hpc_two.'],
  },
  Unavailable: {
    description: 'The service or the HPC system is unavailable for some time. Repeat the request after `Retry-After`.',
    headers: ['Retry-After'],
    example: ['database_unavailable', 'The database is not available now. Try again.'],
  },
  ServerError: {
    description: 'An error of the server. Report it to the operators with its `request_id`.',
    headers: [],
    example: ['internal', 'The request failed because of an internal error.'],
  },
};

/** The responses that all operations share. */
export function errorResponses(commonHeaders: readonly HeaderName[]): Record<string, ResponseObject> {
  return Object.fromEntries(
    Object.entries(responses).map(
      ([
        name,
        {
          description,
          headers,
          example: [code, detail],
        },
      ]) => {
        const { body } = toProblem(new BursarError(code, detail), '2486fc51-56d2-4aa0-9cc1-c0392e44d738');
        const references = [...headers, ...commonHeaders].map((header) => [
          header,
          { $ref: `#/components/headers/${header}` },
        ]);
        const problem = { schema: { $ref: '#/components/schemas/Problem' }, example: JSON.parse(body) };
        return [
          name,
          { description, headers: Object.fromEntries(references), content: { 'application/problem+json': problem } },
        ];
      },
    ),
  );
}
