import type { JobRequest, System } from '@bursar/client';
import { parseRuntime } from './runtime-text.ts';

/** The form as it was typed. An empty text means the default of the system. */
export interface SubmitValues {
  hpc: string;
  project: string;
  command: string;
  tool: string;
  params: Record<string, string>;
  nodes: string;
  cores: string;
  runtime: string;
  title: string;
  tags: string;
  /** The earlier job that the form was filled from. */
  from: string;
}

export const emptyValues: SubmitValues = {
  hpc: '',
  project: '',
  command: '',
  tool: '',
  params: {},
  nodes: '',
  cores: '',
  runtime: '',
  title: '',
  tags: '',
  from: '',
};

type Payload = Record<string, unknown>;

/** The Payload of the form, with the names of the API. Fields without a value are left out. */
export function toPayload(values: SubmitValues, system: System): Payload {
  const tool = system.tools.find(({ name }) => name === values.tool);
  const runtime = values.runtime.trim() === '' ? undefined : (parseRuntime(values.runtime) ?? values.runtime);
  const params = (tool?.parameters ?? []).map(({ name }) => [name, values.params[name] ?? '']);
  const payload = {
    ...(system.kind === 'batch' ? { command: values.command } : { tool: values.tool }),
    ...Object.fromEntries(params),
    node_number: values.nodes.trim(),
    core_number: values.cores.trim(),
    runtime,
    title: values.title.trim(),
    tags: values.tags.trim(),
  };
  return Object.fromEntries(Object.entries(payload).filter(([, value]) => value !== undefined && value !== ''));
}

/** The request of a form that has been checked. */
export function toJobRequest(values: SubmitValues, system: System): JobRequest {
  const { command, tool, node_number, core_number, runtime, title, tags, ...params } = toPayload(values, system);
  const number = (value: unknown) => (value === undefined ? undefined : Number(value));
  return {
    hpc: system.hpc,
    project: values.project || undefined,
    command: command as string | undefined,
    tool: tool as string | undefined,
    nodes: number(node_number),
    coresPerNode: number(core_number),
    runtime: number(runtime),
    title: title as string | undefined,
    tags: tags === undefined ? undefined : String(tags).split(/[\s,]+/),
    params: params as Record<string, string>,
  };
}
