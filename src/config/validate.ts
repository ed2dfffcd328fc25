import type { ErrorObject } from 'ajv';
import { closest } from 'fastest-levenshtein';
import ipaddr from 'ipaddr.js';
import { BursarError, type FieldError } from '../domain/errors.ts';
import { placeholderPattern } from '../domain/jobs/tool-command.ts';
import { engineOf } from '../engines/registry.ts';
import { parseDatabaseUrl } from './database-url.ts';
import { findIsolationErrors } from './isolation-keys.ts';
import { isLoopback } from './loopback.ts';
import { findProviderErrors } from './oidc-keys.ts';
import { type ResolvedReferences, referencesKey } from './references.ts';
import type { Config } from './schema.ts';
import { schemaValidator } from './schema-validators.ts';
import { findParameterError, findPlaceholderError } from './tool-parameters.ts';

/**
 * Returns the configuration with defaults and its references, frozen. Throws one `invalid_config` error that lists all
 * problems, without values that come from references.
 */
export function validateConfig(value: unknown, source: string, references?: ResolvedReferences): Config {
  const config = structuredClone(value);
  const configErrors = findSchemaErrors('config', config, '');
  const schemaErrors = configErrors.length > 0 ? configErrors : validateEngines(config as Config);
  const fields = schemaErrors.length > 0 ? schemaErrors : validateConsistency(config as Config, references);
  if (fields.length > 0) {
    throw invalidConfig(
      source,
      references === undefined ? fields : fields.map((error) => withoutValues(error, references)),
    );
  }
  return deepFreeze({ ...(config as Config), ...(references === undefined ? {} : { [referencesKey]: references }) });
}

export function invalidConfig(source: string, fields: FieldError[]): BursarError {
  const list = fields.map(({ field, message }) => `  ${field}: ${message}`).join('\n');
  return new BursarError('invalid_config', `The configuration ${source} is not valid:\n${list}`, { fields });
}

/** A shorter value protects nothing, and its characters are in every message. */
const minSecretLength = 4;

function withoutValues({ field, message }: FieldError, { byPath, byValue }: ResolvedReferences): FieldError {
  let safe = message;
  for (const [value, reference] of byValue)
    if (value.length >= minSecretLength) safe = safe.replaceAll(value, () => String(reference));
  const isWrongType = byPath.has(field) && /^must be (integer|number|boolean)$/.test(message);
  return { field, message: isWrongType ? `${safe}, and a reference is always text: write the value itself` : safe };
}

/** Sets the defaults too. */
function findSchemaErrors(schema: string, value: unknown, path: string): FieldError[] {
  const validate = schemaValidator(schema);
  if (validate === undefined) return [{ field: path, message: 'is not a known key' }];
  return validate(value) ? [] : (validate.errors ?? []).flatMap((error) => toFieldErrors(error, path));
}

/** Each kind of engine has its own keys and defaults. */
function validateEngines({ systems }: Config): FieldError[] {
  return Object.entries(systems).flatMap(([name, { engine, projects }]) => [
    ...findSchemaErrors(engine.kind, engine, `systems.${name}.engine`),
    ...projects.flatMap(({ site }, index) =>
      site === undefined ? [] : findSchemaErrors(`${engine.kind}_site`, site, `systems.${name}.projects.${index}.site`),
    ),
  ]);
}

/** Checks that a JSON schema cannot express. */
function validateConsistency(config: Config, references: ResolvedReferences | undefined): FieldError[] {
  const { server, webhooks } = config;
  const errors: FieldError[] = [];
  const addError = (field: string, message: string | null) => {
    if (message !== null) errors.push({ field, message });
  };
  addError('webhooks.secretKey', findSecretKeyError(webhooks, references));
  addError('database.url', findDatabaseUrlError(config.database));
  for (const proxy of server.trustProxy) addError('server.trustProxy', findProxyError(proxy));
  addError('server.publicUrl', findPublicUrlError(server));
  for (const key of ['allowNetworks', 'denyNetworks'] as const)
    for (const network of webhooks[key])
      if (!ipaddr.isValidCIDR(network))
        addError(`webhooks.${key}`, `${network} is not a network in CIDR notation, such as 10.1.0.0/16`);
  errors.push(...findProviderErrors(config));
  for (const [name, system] of Object.entries(config.systems)) {
    const add = (field: string, message: string | null) => addError(`systems.${name}.${field}`, message);
    const networkHost = isLoopback(server.host) ? null : server.host;
    for (const [key, message] of engineOf(system).findErrors(system.engine, networkHost)) add(`engine.${key}`, message);
    for (const [key, message] of findIsolationErrors(system)) add(key, message);
    const projectNames = system.projects.map(({ name: projectName }) => projectName);
    const duplicate = projectNames.find((project, index) => projectNames.indexOf(project) !== index);
    if (duplicate !== undefined) add('projects', `${duplicate} is listed twice`);
    if (system.kind === 'tool' && Object.keys(system.tools).length === 0) {
      add('tools', 'must contain at least one tool on a system of kind tool');
    }
    if (system.kind === 'batch' && Object.keys(system.tools).length > 0) {
      add('tools', 'must be empty on a system of kind batch; only a system of kind tool has tools');
    }
    if (system.defaultRuntimeHours > system.limits.runtimeHours)
      add('defaultRuntimeHours', 'must not exceed limits.runtimeHours');
    // The workspace has more than the entries of the zip: folders that the zip does not list, and the logs.
    if (2 * config.submissions.maxEntries > system.limits.files) {
      const { maxEntries } = config.submissions;
      add('limits.files', `must be at least twice submissions.maxEntries, which is ${maxEntries}`);
    }
    for (const [tool, { command, parameters }] of Object.entries(system.tools)) {
      for (const [parameter, rule] of Object.entries(parameters)) {
        add(`tools.${tool}.parameters.${parameter}`, findParameterError(parameter, rule));
      }
      for (const [index, part] of command.entries()) {
        for (const [placeholder, parameter = ''] of part.matchAll(placeholderPattern)) {
          const rule = Object.hasOwn(parameters, parameter) ? parameters[parameter] : undefined;
          add(`tools.${tool}.command`, findPlaceholderError(placeholder, rule, part, index));
        }
      }
    }
  }
  return errors;
}

/** A key in the configuration itself would be in every copy of that file. */
function findSecretKeyError({ secretKey }: Config['webhooks'], references: ResolvedReferences | undefined) {
  if (secretKey === undefined) return null;
  if (!references?.byPath.has('webhooks.secretKey'))
    return 'must be a reference, such as !file /etc/bursar/webhook-key';
  if (/^[A-Za-z0-9+/]{43}=$/.test(secretKey)) return null;
  return 'must be 32 bytes in base64, as "openssl rand -base64 32" prints them';
}

function findDatabaseUrlError({ url }: Config['database']): string | null {
  try {
    parseDatabaseUrl(url);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

/** A network of all addresses would let every client choose its address. */
function findProxyError(text: string): string | null {
  if (ipaddr.isValid(text) || (ipaddr.isValidCIDR(text) && ipaddr.parseCIDR(text)[1] > 0)) return null;
  return `${text} is not an IP address, or a network in CIDR notation, such as 10.1.0.0/16`;
}

/** Browsers keep the cookies of a session on this host, or with TLS. */
function findPublicUrlError({ publicUrl, tls }: Config['server']): string | null {
  if (publicUrl === undefined) return null;
  if (!URL.canParse(publicUrl)) return 'is not a valid URL';
  const { protocol, hostname } = new URL(publicUrl);
  if (protocol === 'http:' && tls !== undefined) return 'must begin with https:// with server.tls';
  return protocol === 'https:' || isLoopback(hostname) ? null : 'must begin with https://, unless it names this host';
}

function toFieldErrors(error: ErrorObject, parentPath = ''): FieldError[] {
  const path = [parentPath, error.instancePath.slice(1).replaceAll('/', '.')].filter(Boolean).join('.');
  if (error.keyword === 'additionalProperties') {
    const key = String(error.params.additionalProperty);
    return [{ field: path === '' ? key : `${path}.${key}`, message: describeUnknownKey(key, error.parentSchema) }];
  }
  if (error.keyword === 'enum') {
    return [{ field: path, message: `must be one of ${error.params.allowedValues.join(', ')}` }];
  }
  if (error.keyword === 'anyOf') return [{ field: path, message: 'has the wrong type' }];
  return [{ field: path === '' ? '(top level)' : path, message: error.message ?? 'is not valid' }];
}

function describeUnknownKey(key: string, schema: unknown): string {
  const { properties, patternProperties } = (schema ?? {}) as Record<string, Record<string, unknown> | undefined>;
  const knownKeys = Object.keys(properties ?? {});
  if (knownKeys.length === 0) return `is not a valid name; it must match ${Object.keys(patternProperties ?? {})[0]}`;
  return `is not a known key; did you mean ${closest(key, knownKeys)}?`;
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    for (const inner of Object.values(value)) deepFreeze(inner);
    Object.freeze(value);
  }
  return value;
}
