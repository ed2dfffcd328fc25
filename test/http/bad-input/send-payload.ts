import assert from 'node:assert/strict';
import type { ApiResponse } from '../../support/api.ts';
import type { Hpc } from '../../support/jobs.ts';
import { assertProblem } from '../../support/problems.ts';
import { bearerHeader, type HeaderLine, sendRawRequest } from '../../support/raw-http.ts';
import type { TestServer } from '../../support/server.ts';

/** What runs on either system, and is all that a Payload needs. */
export const runs = { hpc_one: { command: 'echo hello' }, hpc_two: { tool: 'BASH' } };

interface PayloadSender {
  /** A submission in which nothing but the Payload can be wrong. */
  submit(hpc: Hpc, ...payloads: string[]): Promise<ApiResponse>;
  /** The refusal of a Payload that names this field, and no other, as the one at fault. */
  assertFieldRefused(hpc: Hpc, payload: string, field: string, says: RegExp): Promise<void>;
}

/** Sends to the server that is there by then: tests start it after they have asked for this. */
export function payloadSender(serverOf: () => TestServer): PayloadSender {
  function submit(hpc: Hpc, ...payloads: string[]) {
    const { url, userToken } = serverOf();
    const headers: HeaderLine[] = [
      bearerHeader(userToken),
      ['content-disposition', 'attachment; filename=job.zip'],
      ...payloads.map((payload): HeaderLine => ['payload', payload]),
    ];
    return sendRawRequest(url, { method: 'POST', path: `/jobs/${hpc}/`, headers });
  }

  async function assertFieldRefused(hpc: Hpc, payload: string, field: string, says: RegExp) {
    const problem = assertProblem(await submit(hpc, payload), { status: 400, code: 'invalid_payload', message: says });
    assert.deepEqual([...new Set(problem.errors?.map((error) => error.field))], [field]);
    assert.ok(problem.errors?.some((error) => says.test(error.message)));
    assert.match(problem.detail, new RegExp(`\\b${field}: `));
  }
  return { submit, assertFieldRefused };
}
