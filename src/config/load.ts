import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseDocument } from 'yaml';
import { BursarError } from '../domain/errors.ts';
import { referenceTags, resolveReferences } from './references.ts';
import type { Config } from './schema.ts';
import { invalidConfig, validateConfig } from './validate.ts';

const maxPort = 65_535;

/** The configuration that comes with Bursar, used unless `BURSAR_CONFIG` is set. */
const defaultFile = fileURLToPath(new URL('../../config/bursar.yaml', import.meta.url));

/** The configuration file; null if it is the one that comes with Bursar. */
export function findConfigFile({ BURSAR_CONFIG: file }: NodeJS.ProcessEnv): string | null {
  return file ? resolve(file) : null;
}

/** Reads the file, applies the environment variables, resolves references, validates, adds the defaults and freezes. */
export function loadConfig(environment: NodeJS.ProcessEnv): Config {
  const file = findConfigFile(environment) ?? defaultFile;
  const { config, references, errors } = resolveReferences(applyEnvironment(readYaml(file), environment), environment);
  if (errors.length > 0) throw invalidConfig(file, errors);
  return validateConfig(config, file, references);
}

function readYaml(file: string): unknown {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new BursarError('invalid_config', `Cannot read the configuration file ${file}: ${reason}`, { cause });
  }
  const document = parseDocument(text, { customTags: referenceTags });
  // An unknown tag is only a warning.
  const [error] = [...document.errors, ...document.warnings];
  if (error) throw new BursarError('invalid_config', `${file} is not valid YAML: ${error.message}`, { cause: error });
  return document.toJS() ?? {};
}

/** Environment variables override the file. */
function applyEnvironment(value: unknown, environment: NodeJS.ProcessEnv): unknown {
  if (!isRecord(value)) return value;
  const { BURSAR_HOST: host, BURSAR_PORT: port, BURSAR_DATA: data, BURSAR_DATABASE_URL: url } = environment;
  const { BURSAR_METRICS_TOKEN: token } = environment;
  const config = { ...value };
  const set = (section: string, key: string, setting: string | number) => {
    const settings = config[section];
    config[section] = { ...(isRecord(settings) ? settings : {}), [key]: setting };
  };
  if (host) set('server', 'host', host);
  if (port) set('server', 'port', parsePort(port));
  if (url) set('database', 'url', url);
  if (token) set('metrics', 'token', token);
  if (data) config.data = data;
  return config;
}

function parsePort(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= maxPort) return Number(text);
  throw new BursarError('invalid_config', `BURSAR_PORT is "${text}". Set it to a port: a number from 0 to ${maxPort}.`);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
