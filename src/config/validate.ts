import { Resolver } from 'node:dns';
import { Ajv, type ErrorObject } from 'ajv';
import { closest } from 'fastest-levenshtein';
import ipaddr from 'ipaddr.js';
import { BursarError, type FieldError } from '../domain/errors.ts';
import { parseDatabaseUrl } from './database-url.ts';
import { type Config, ConfigSchema } from './schema.ts';
import { engineSchemas } from './system-schema.ts';
import { findParameterError } from './tool-parameters.ts';

// The schemas are ours: checking them too would take longer than all the rest.
const ajv = new Ajv({ allErrors: true, useDefaults: true, strict: false, verbose: true, validateSchema: false });
const validate = ajv.compile(ConfigSchema);
const validateEngine = { local: ajv.compile(engineSchemas.local), slurm: ajv.compile(engineSchemas.slurm) };

/** A validated, complete and frozen configuration; or one error that lists everything that is wrong, and where. */
export function validateConfig(value: unknown, source: string): Config {
  const config = structuredClone(value);
  const faults = validate(config) ? engineFaults(config) : (validate.errors ?? []).flatMap((error) => problemOf(error));
  const problems = faults.length > 0 ? faults : crossChecks(config as Config);
  if (problems.length > 0) {
    const list = problems.map((problem) => `  ${problem.field}: ${problem.message}`).join('\n');
    throw new BursarError('invalid_config', `The configuration ${source} is not valid:\n${list}`, { fields: problems });
  }
  return deepFreeze(config as Config);
}

/** Each kind of engine has keys and defaults of its own. */
function engineFaults(config: unknown): FieldError[] {
  const { systems } = config as Config;
  return Object.entries(systems).flatMap(([name, { engine }]) => {
    const check = validateEngine[engine.kind];
    if (check(engine)) return [];
    return (check.errors ?? []).flatMap((error) => problemOf(error, `systems.${name}.engine`));
  });
}

/** What a schema cannot say. */
function crossChecks(config: Config): FieldError[] {
  const problems: FieldError[] = [...databaseFaults(config.database.url), ...webhookFaults(config)];
  for (const [name, system] of Object.entries(config.systems)) {
    const at = `systems.${name}`;
    const add = (field: string, message: string) => problems.push({ field: `${at}.${field}`, message });
    const { engine } = system;
    if (engine.kind === 'local' && !engine.acceptJobsFromTheNetwork && !isLoopback(config.server.host)) {
      add(
        'engine.acceptJobsFromTheNetwork',
        `must be true to listen on ${config.server.host}: the local engine runs the code of its callers on this host`,
      );
    }
    const names = system.projects.map((project) => project.name);
    const twice = names.find((project, index) => names.indexOf(project) !== index);
    if (twice !== undefined) add('projects', `${twice} is listed twice`);
    if (system.kind === 'tool' && Object.keys(system.tools).length === 0) {
      add('tools', 'a system of kind tool needs at least one tool');
    }
    if (system.kind === 'batch' && Object.keys(system.tools).length > 0) {
      add('tools', 'a system of kind batch takes commands; tools belong to a system of kind tool');
    }
    if (engine.kind === 'slurm' && engine.ssh !== undefined && engine.workspaceFolder === undefined) {
      add('engine.workspaceFolder', 'must name a folder on the cluster, which is reached over ssh');
    }
    for (const limit of ['nodes', 'coresPerNode', 'runtimeHours'] as const) {
      if (system.defaults[limit] > system.limits[limit]) add(`defaults.${limit}`, `is over limits.${limit}`);
    }
    for (const [tool, { command, parameters }] of Object.entries(system.tools)) {
      for (const [parameter, rule] of Object.entries(parameters)) {
        const fault = findParameterError(parameter, rule);
        if (fault !== null) add(`tools.${tool}.parameters.${parameter}`, fault);
      }
      for (const used of command.join(' ').matchAll(/\{(\w+)\}/g)) {
        if (!Object.hasOwn(parameters, used[1] ?? '')) add(`tools.${tool}.command`, `${used[0]} is not a parameter`);
      }
    }
  }
  return problems;
}

function webhookFaults({ webhooks: { allowNetworks, nameServers } }: Config): FieldError[] {
  const networks = allowNetworks.filter((network) => !ipaddr.isValidCIDR(network));
  const servers = nameServers.filter((server) => !isNameServer(server));
  return [
    ...networks.map((text) => ({
      field: 'webhooks.allowNetworks',
      message: `${text} is not a network such as 10.1.0.0/16`,
    })),
    ...servers.map((text) => ({
      field: 'webhooks.nameServers',
      message: `${text} is not an IP address, with or without a port`,
    })),
  ];
}

/** By the one who will be told to use it. */
function isNameServer(text: string): boolean {
  try {
    new Resolver().setServers([text]);
    return true;
  } catch {
    return false;
  }
}

function databaseFaults(url: string): FieldError[] {
  try {
    parseDatabaseUrl(url);
    return [];
  } catch (error) {
    return [{ field: 'database.url', message: (error as Error).message }];
  }
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

function problemOf(error: ErrorObject, at = ''): FieldError[] {
  const path = [at, error.instancePath.slice(1).replaceAll('/', '.')].filter(Boolean).join('.');
  if (error.keyword === 'additionalProperties') {
    const key = String(error.params.additionalProperty);
    return [{ field: path === '' ? key : `${path}.${key}`, message: unknownKey(key, error.parentSchema) }];
  }
  if (error.keyword === 'const') return [];
  if (error.keyword === 'enum') {
    return [{ field: path, message: `must be one of ${error.params.allowedValues.join(', ')}` }];
  }
  if (error.keyword === 'anyOf') {
    const choices = (error.schema as { const?: string }[]).map((choice) => choice.const).filter(Boolean);
    return [
      { field: path, message: choices.length > 0 ? `must be one of ${choices.join(', ')}` : 'has the wrong type' },
    ];
  }
  return [{ field: path === '' ? '(top)' : path, message: error.message ?? 'is not valid' }];
}

function unknownKey(key: string, schema: unknown): string {
  const { properties, patternProperties } = (schema ?? {}) as Record<string, Record<string, unknown> | undefined>;
  const known = Object.keys(properties ?? {});
  if (known.length === 0) return `is not a possible name: it must match ${Object.keys(patternProperties ?? {})[0]}`;
  return `is not a known key; the nearest known one is ${closest(key, known)}`;
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    for (const inner of Object.values(value)) deepFreeze(inner);
    Object.freeze(value);
  }
  return value;
}
