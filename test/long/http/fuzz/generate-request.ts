import { gzipSync } from 'node:zlib';
import type { OpenApi, Operation, Parameter } from '../../../support/contract.ts';
import type { Random } from './random.ts';
import { hostileText, mutateBytes, mutateJsonObject, mutateText } from './values.ts';

/** A request as it is sent. Header values are latin1, so that every byte can be sent. */
export interface FuzzRequest {
  method: string;
  /** Path and query. */
  target: string;
  headers: [name: string, value: string][];
  body: Buffer;
  /** `chunked`: sent in chunks. `close`: the server is asked to close the connection. */
  framing: 'length' | 'chunked' | 'close';
}

/** Values for requests that are not in the document: existing identifiers, tokens, bodies and a zip. */
export interface FuzzFixture {
  /** By name of the path parameter. */
  pathValues(operationId: string): Record<string, string>;
  tokens: { user: string; other: string; admin: string };
  /** A body that is valid at present, for operations whose example is not. */
  body(operationId: string): object | undefined;
  zip: Buffer;
}

export interface FuzzOperation {
  method: string;
  path: string;
  id: string;
  operation: Operation;
}

export function listOperations(document: OpenApi): FuzzOperation[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      id: operation.operationId ?? '',
      operation,
    })),
  );
}

/** The parts of a request, before they are formatted. */
interface Parts {
  method: string;
  pathValues: Record<string, string>;
  /** Percent-encoded already. */
  query: [name: string, value: string][];
  headers: [name: string, value: string][];
  body: Buffer;
  framing: FuzzRequest['framing'];
  suffix: string;
}

const harmlessMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND', 'SEARCH'];
const mediaTypes = [
  'application/json',
  'application/json; charset=utf-16',
  'application/jsonx',
  'text/plain',
  'text/csv',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'multipart/form-data',
  'application/zip',
  'application/problem+json',
  ';;;',
  '*/*',
];
/** Headers of HTTP that the document need not describe. */
const commonHeaders = [
  'accept',
  'accept-encoding',
  'content-encoding',
  'cookie',
  'forwarded',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'idempotency-key',
  'last-event-id',
  'origin',
  'payload',
  'prefer',
  'range',
  'te',
  'traceparent',
  'x-forwarded-for',
  'x-http-method-override',
  'x-request-id',
];

/** A valid request of an operation, with this many changes. */
export function generateRequest(
  random: Random,
  { method, path, id, operation }: FuzzOperation,
  document: OpenApi,
  fixture: FuzzFixture,
  changes: number,
): FuzzRequest {
  const parameters = (operation.parameters ?? []).map((parameter) => resolveParameter(document, parameter));
  const parts = validParts(random, { method, id, operation }, parameters, fixture);
  // The job, the webhook, the session and the tokens of the fixture must stay: a later request would only show that they are gone.
  const methods = /\{(job|webhook)_id\}|\/(sessions|tokens)\//.test(path)
    ? harmlessMethods
    : [...harmlessMethods, 'DELETE'];
  for (let change = 0; change < changes; change += 1) mutate(random, parts, parameters, operation, fixture, methods);
  return format(parts, path);
}

function resolveParameter(document: OpenApi, parameter: Parameter | { $ref: string }): Parameter {
  if (!('$ref' in parameter)) return parameter;
  const found = document.components.parameters[parameter.$ref.split('/').at(-1) ?? ''];
  if (found === undefined) throw new Error(`unknown reference ${parameter.$ref}`);
  return found;
}

function validParts(
  random: Random,
  { method, id, operation }: Omit<FuzzOperation, 'path'>,
  parameters: readonly Parameter[],
  fixture: FuzzFixture,
): Parts {
  const { tokens } = fixture;
  const token = operation.tags?.includes('administration') ? tokens.admin : tokens.user;
  const headers: Parts['headers'] = [['authorization', `Bearer ${token}`]];
  for (const { name, in: location, required, example, content } of parameters) {
    if (location !== 'header' || (!required && random.chance(0.7))) continue;
    const value = example ?? content?.['application/json']?.example;
    if (name === 'Idempotency-Key') headers.push(['idempotency-key', `key-${random.below(1e9)}`]);
    else if (value !== undefined) headers.push([name.toLowerCase(), headerText(value)]);
  }
  const parts: Parts = {
    method,
    pathValues: fixture.pathValues(id),
    query: [],
    headers,
    body: Buffer.alloc(0),
    framing: 'length',
    suffix: '',
  };
  const { content = {} } = operation.requestBody ?? {};
  if (content['application/json'] !== undefined) {
    headers.push(['content-type', 'application/json']);
    parts.body = Buffer.from(JSON.stringify(fixture.body(id) ?? content['application/json'].example));
  } else if (content['application/x-www-form-urlencoded'] !== undefined) {
    headers.push(['content-type', 'application/x-www-form-urlencoded']);
    parts.body = Buffer.from(String(new URLSearchParams({ ...fixture.body(id) })));
  } else if (content['application/zip'] !== undefined && random.chance(0.5)) parts.body = fixture.zip;
  return parts;
}

const headerText = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));

function mutate(
  random: Random,
  parts: Parts,
  parameters: readonly Parameter[],
  operation: Operation,
  fixture: FuzzFixture,
  methods: readonly string[],
): void {
  const named = (location: string) => parameters.filter(({ in: where }) => where === location);
  const mutations = [
    () => mutatePath(random, parts, named('path')),
    () => mutateQuery(random, parts, named('query')),
    () => mutateHeaders(random, parts, named('header')),
    () => mutateBody(random, parts, operation),
    () => mutateToken(random, parts, fixture.tokens),
    () => mutateFraming(random, parts, methods),
  ];
  random.pick(mutations)();
}

function mutateFraming(random: Random, parts: Parts, methods: readonly string[]): void {
  if (random.chance(0.3)) parts.method = random.pick(methods);
  else parts.framing = random.pick(['chunked', 'close']);
}

function mutatePath(random: Random, parts: Parts, parameters: readonly Parameter[]): void {
  if (parameters.length === 0 || random.chance(0.1)) {
    parts.suffix = random.pick(['/', '//', '.', '/../', '%2f', '%00', '%', '%ff', ';x=1', '#x', 'x'.repeat(2000)]);
    return;
  }
  const { name } = random.pick(parameters);
  const value = parts.pathValues[name] ?? '';
  parts.pathValues[name] = random.pick([
    () => percentEncode(hostileText(random)),
    () => value.toUpperCase(),
    () => value.toLowerCase(),
    () => value.slice(1),
    () => `${value}%00`,
    () => `%${value}`,
    () => `${value}${hostileText(random).replace(/[^!-~]/g, '')}`.replace(/[#?]/g, ''),
    () => `${value}%c3%28`,
    () => [...Buffer.from(value)].map((byte) => `%${byte.toString(16)}`).join(''),
  ])();
}

/** The values of a schema, at its bounds and beyond them. */
function valuesFor(random: Random, { name, schema = {} }: Parameter): string {
  // A long poll would wait.
  if (name === 'wait') return random.pick(['0', '0.001', '-1', '61', 'x', '', '1e-3', '1e9', 'NaN']);
  const { enum: values, minimum, maximum } = schema as { enum?: unknown[]; minimum?: number; maximum?: number };
  const choices: string[] = [hostileText(random), hostileText(random)];
  if (values !== undefined) choices.push(String(random.pick(values)), String(random.pick(values)).toLowerCase());
  for (const bound of [minimum, maximum]) {
    if (bound !== undefined) choices.push(String(bound), String(bound - 1), String(bound + 1));
  }
  if (/^(from|to|since)$/.test(name)) choices.push('2026-01-31', '2026-01-31T12:00:00Z', '1900-01-01');
  return random.pick(choices);
}

function mutateQuery(random: Random, parts: Parts, parameters: readonly Parameter[]): void {
  if (parameters.length === 0 || random.chance(0.15)) {
    parts.query.push([
      random.pick(['x', '', '__proto__', 'limit[]', 'LIMIT', '%00', '%']),
      percentEncode(hostileText(random)),
    ]);
    return;
  }
  const parameter = random.pick(parameters);
  const value = percentEncode(valuesFor(random, parameter));
  parts.query.push([parameter.name, value]);
  if (random.chance(0.15)) parts.query.push([parameter.name, percentEncode(valuesFor(random, parameter))]);
}

function mutateHeaders(random: Random, parts: Parts, parameters: readonly Parameter[]): void {
  const described = parameters.map(({ name }) => name.toLowerCase());
  const name = described.length > 0 && random.chance(0.6) ? random.pick(described) : random.pick(commonHeaders);
  const index = parts.headers.findIndex(([given]) => given === name);
  const [, current = ''] = parts.headers[index] ?? [];
  const value = headerValue(random, name, current);
  if (index >= 0 && random.chance(0.8)) parts.headers.splice(index, 1);
  if (random.chance(0.9)) parts.headers.push([name, value]);
  if (random.chance(0.1)) parts.headers.push([name, headerValue(random, name, current)]);
}

function headerValue(random: Random, name: string, current: string): string {
  if (name === 'payload') return mutatePayload(random, current);
  const text = random.pick([
    () => hostileText(random),
    () => mutateText(random, current),
    () => (name.startsWith('accept') ? random.pick([...mediaTypes, 'text/event-stream']) : hostileText(random)),
    () => (name.includes('range') ? `bytes=${random.below(20)}-${random.below(20)}` : current),
    () => (name === 'content-disposition' ? `attachment; filename=${hostileText(random)}.zip` : current),
  ])();
  return toHeaderBytes(text);
}

function mutatePayload(random: Random, current: string): string {
  const fields = ['command', 'tool', 'node_number', 'core_number', 'runtime', 'title', 'tags', 'arguments'];
  let payload: Record<string, unknown> = {};
  try {
    payload = JSON.parse(current);
  } catch {
    // An earlier change has damaged it.
  }
  return toHeaderBytes(mutateJsonObject(random, payload, fields));
}

/** A header cannot contain line breaks and NUL, and 16 KiB must hold all headers. Characters are sent in UTF-8. */
function toHeaderBytes(text: string): string {
  return Buffer.from(text.slice(0, 6000))
    .toString('latin1')
    .replace(/[\0\r\n]/g, '?')
    .trim();
}

function mutateBody(random: Random, parts: Parts, operation: Operation): void {
  const { content = {} } = operation.requestBody ?? {};
  const { schema, example } = content['application/json'] ?? {};
  const setType = (type: string) => {
    parts.headers = parts.headers.filter(([name]) => name !== 'content-type');
    if (type !== '') parts.headers.push(['content-type', type]);
  };
  if (random.chance(0.1)) {
    setType(random.pick([...mediaTypes, '']));
    return;
  }
  if (example === undefined) {
    if (random.chance(0.3)) setType(random.pick(mediaTypes));
    parts.body = random.chance(0.3) ? Buffer.from(mutateText(random, '{}')) : mutateBytes(random, parts.body);
    return;
  }
  if (random.chance(0.1)) {
    parts.body = random.pick([
      () => gzipSync(parts.body),
      () => Buffer.from(parts.body.toString(), 'utf16le'),
      () => Buffer.concat([Buffer.from('\ufeff'), parts.body]),
      () => mutateBytes(random, parts.body),
      () => Buffer.alloc(70_000, 0x20),
    ])();
    return;
  }
  let value: Record<string, unknown> = example as Record<string, unknown>;
  try {
    value = JSON.parse(parts.body.toString());
  } catch {
    // An earlier change has damaged it.
  }
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  parts.body = Buffer.from(mutateJsonObject(random, isObject ? value : {}, Object.keys(schema?.properties ?? {})));
}

function mutateToken(random: Random, parts: Parts, tokens: FuzzFixture['tokens']): void {
  parts.headers = parts.headers.filter(([name]) => name !== 'authorization');
  const value = random.pick([
    `Bearer ${tokens.user}`,
    `Bearer ${tokens.other}`,
    `Bearer ${tokens.admin}`,
    `bearer   ${tokens.user}`,
    `Basic ${tokens.user}`,
    'Bearer ',
    'Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.',
    toHeaderBytes(hostileText(random)),
  ]);
  if (random.chance(0.8)) parts.headers.push(['authorization', value]);
}

/** Encodes about half of the characters that need not be encoded, too. A lone surrogate becomes invalid UTF-8. */
function percentEncode(text: string): string {
  return [...text]
    .map((character, index) => {
      if (/[\ud800-\udfff]/.test(character) && character.length === 1) return '%ed%a0%80';
      if (/[\w.~*'()-]/.test(character) && index % 2 === 0) return character;
      return [...Buffer.from(character)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
    })
    .join('');
}

function format({ method, pathValues, query, headers, body, framing, suffix }: Parts, path: string): FuzzRequest {
  const filled = path.replace(/\{(\w+)\}/g, (_match, name: string) => pathValues[name] ?? '');
  const queryText = query.map(([name, value]) => `${name}=${value}`).join('&');
  // A fragment, a space or a control character would end the target.
  const target = `${filled}${suffix}`.replace(/[^!-"$-~]/g, '') + (queryText === '' ? '' : `?${queryText}`);
  return { method, target, headers, body, framing };
}
