import assert from 'node:assert/strict';
import { validateConfig } from '../../src/config/validate.ts';
import { BursarError } from '../../src/domain/errors.ts';

/** The smallest valid configuration. */
export const minimalConfig = () => ({ systems: { hpc_one: { kind: 'batch', projects: [{ name: 'proj' }] } } });

/** A configuration with one tool system that has one tool. */
export function configWithTool(tool: object) {
  const system = { kind: 'tool', projects: [{ name: 'proj' }], tools: { TOOL: { command: ['run'], ...tool } } };
  return { systems: { hpc_two: system } };
}

/** Returns the error message of each invalid field; empty if the configuration is valid. */
export function fieldErrors(config: unknown): Record<string, string> {
  try {
    validateConfig(config, 'test.yaml');
  } catch (error) {
    assert.ok(error instanceof BursarError, String(error));
    assert.equal(error.code, 'invalid_config');
    assert.match(error.message, /test\.yaml/);
    for (const { field, message } of error.fields) assert.ok(error.message.includes(`${field}: ${message}`));
    return Object.fromEntries(error.fields.map(({ field, message }) => [field, message]));
  }
  return {};
}
