import type { System } from '@bursar/client';
import { BursarError } from '../../../../../src/domain/errors.ts';
import type { InputRequest } from '../../../../../src/domain/jobs/command.ts';
import { type PayloadRules, parsePayload } from '../../../../../src/domain/jobs/payload.ts';
import { findCommandLanguage } from '../../../../../src/engines/command-languages.ts';
import type { FieldErrors } from '../../../shared/field-errors.ts';
import { capitalise } from '../../../ui/format.ts';
import { parseRuntime } from './runtime-text.ts';
import { type SubmitValues, toPayload } from './values.ts';

export interface CheckedValues {
  errors: FieldErrors;
  /** Says which files the job needs; null if the form has errors. */
  request: InputRequest | null;
}

/** Checks the form by the server's own rules, so that the messages are the same. */
export function checkValues(values: SubmitValues, system: System): CheckedValues {
  const payload = toPayload(values, system);
  try {
    const request = parsePayload(JSON.stringify(payload), toRules(system));
    return { errors: {}, request };
  } catch (error) {
    if (!(error instanceof BursarError)) throw error;
    const errors = Object.fromEntries((error.fields ?? []).map(({ field, message }) => [field, message]));
    if (values.runtime.trim() !== '' && parseRuntime(values.runtime) === null) {
      errors.runtime = 'must be a time: hours, such as 1.5, or 1:30, or 90 min';
    }
    return { errors, request: null };
  }
}

function toRules({ hpc, kind, command_language, limits, defaults, runtime_policy, tools }: System): PayloadRules {
  const toResources = ({ nodes, cores_per_node, runtime }: System['limits']) => ({
    nodes,
    coresPerNode: cores_per_node,
    runtimeHours: runtime,
  });
  return {
    name: hpc,
    kind,
    commandLanguage: findCommandLanguage(command_language),
    runtimePolicy: runtime_policy,
    limits: toResources(limits),
    defaults: toResources(defaults),
    tools: Object.fromEntries(tools.map((tool) => [tool.name, toTool(tool)])),
  };
}

function toTool({ entry, parameters }: System['tools'][number]): PayloadRules['tools'][string] {
  const toRule = ({ type, required, ...rest }: (typeof parameters)[number]) => {
    const given = Object.entries(rest).filter(([name, value]) => value !== null && name !== 'name');
    // Only the server knows whether a value may begin with "-": its quote says so.
    return { type, required, allowOptions: true, ...Object.fromEntries(given) };
  };
  return {
    command: [],
    ...(entry === null ? {} : { entry }),
    parameters: Object.fromEntries(parameters.map((parameter) => [parameter.name, toRule(parameter)])),
  };
}

/** `must be at least 1` becomes `Must be at least 1.` */
export function toSentence(message: string): string {
  return `${capitalise(message).replace(/\.$/, '')}.`;
}
