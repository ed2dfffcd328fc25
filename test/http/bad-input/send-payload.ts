import assert from 'node:assert/strict';
import type { ApiResponse } from '../../support/api.ts';
import { bashZip, type Hpc } from '../../support/jobs.ts';
import { assertProblem } from '../../support/problems.ts';
import { bearerHeader, type HeaderLine, sendRawRequest } from '../../support/raw-http.ts';
import type { TestServer } from '../../support/server.ts';

/** The smallest valid Payload of each system. */
export const valid = { hpc_one: { command: 'echo hello' }, hpc_two: { tool: 'BASH' } };

interface PayloadSender {
  /** Sends a submission that is valid except for the Payload. */
  submit(hpc: Hpc, ...payloads: string[]): Promise<ApiResponse>;
  /** Asserts that the Payload is rejected because of this field only. */
  assertFieldRejected(hpc: Hpc, payload: string, field: string, message: RegExp): Promise<void>;
}

/** Takes a function because tests start the server later, in `before`. */
export function createPayloadSender(getServer: () => TestServer): PayloadSender {
  function submit(hpc: Hpc, ...payloads: string[]) {
    const { url, userToken } = getServer();
    const headers: HeaderLine[] = [
      bearerHeader(userToken),
      ['content-disposition', 'attachment; filename=job.zip'],
      ...payloads.map((payload): HeaderLine => ['payload', payload]),
    ];
    return sendRawRequest(url, { method: 'POST', path: `/jobs/${hpc}/`, headers, body: bashZip });
  }

  async function assertFieldRejected(hpc: Hpc, payload: string, field: string, message: RegExp) {
    const problem = assertProblem(await submit(hpc, payload), {
      status: 400,
      code: 'invalid_payload',
      message,
    });
    assert.deepEqual([...new Set(problem.errors?.map((error) => error.field))], [field]);
    assert.ok(problem.errors?.some((error) => message.test(error.message)));
    assert.match(problem.detail, new RegExp(`\\b${field}: `));
  }
  return { submit, assertFieldRejected };
}
