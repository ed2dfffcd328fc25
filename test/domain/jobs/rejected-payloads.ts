import assert from 'node:assert/strict';
import { BursarError } from '../../../src/domain/errors.ts';
import { parsePayload } from '../../../src/domain/jobs/payload.ts';
import type { HpcSystem, ToolParameter } from '../../../src/domain/systems/system.ts';
import { assertGivesAdvice } from '../../support/advice.ts';
import { batchSystem, plainTool, toolSystem } from '../example-systems.ts';

export type Hpc = 'hpc_one' | 'hpc_two';

const parameters: Record<string, ToolParameter> = {
  steps: { type: 'integer', required: true, min: 1, max: 100 },
  ratio: { type: 'number', required: false, min: 0, max: 1 },
  mode: { type: 'string', required: false, values: ['fast', 'slow'], default: 'fast' },
  label: { type: 'string', required: false, pattern: '[a-z]+|[0-9]+' },
};
const systems: Record<Hpc, HpcSystem> = {
  hpc_one: batchSystem,
  hpc_two: toolSystem({
    BASH: plainTool,
    PYTHON3: plainTool,
    NODE: plainTool,
    SOLVER: { command: ['true'], parameters },
  }),
};
/** The smallest valid Payload of each system. */
export const runs = { hpc_one: { command: 'echo hello' }, hpc_two: { tool: 'BASH' } };

/** The error of a Payload that must be rejected. */
export function rejectionOf(hpc: Hpc, payload: string): BursarError {
  try {
    parsePayload(payload, systems[hpc]);
  } catch (error) {
    assert.ok(error instanceof BursarError, String(error));
    assert.equal(error.code, 'invalid_payload');
    assertGivesAdvice(error.message);
    return error;
  }
  assert.fail(`accepted: ${payload}`);
}

/** The error names this field and no other one. */
export function assertFieldRejected(hpc: Hpc, payload: string, field: string, says: RegExp): void {
  const { fields, message } = rejectionOf(hpc, payload);
  assert.deepEqual([...new Set(fields.map((error) => error.field))], [field]);
  assert.ok(
    fields.some((error) => says.test(error.message)),
    message,
  );
  assert.ok(message.includes(`${field}: `), message);
}
