import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient, type UserConfig } from '@hey-api/openapi-ts';
import type { OpenApiDocument, OpenApiOperation } from './openapi-document.ts';

/** An operation with the values that the client needs at run time. */
interface Operation {
  id: string;
  method: string;
  path: string;
  body: 'none' | 'json' | 'form' | 'zip';
  response: 'json' | 'text' | 'response';
  retry: 'safe' | 'key' | 'never';
}

/** Generates the files of the TypeScript client that depend on the OpenAPI document, by their path. */
export async function clientFiles(document: OpenApiDocument): Promise<Record<string, string>> {
  const operations = listOperations(document);
  return {
    'clients/typescript/src/generated/types.ts': await generateTypes(toClientDocument(document)),
    'clients/typescript/src/generated/operations.ts': generateOperations(operations),
  };
}

function listOperations(document: OpenApiDocument): Operation[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      id: operation.operationId,
      method: method.toUpperCase(),
      path,
      body: bodyKind(operation),
      response: responseKind(operation),
      retry: retryKind(method, path, operation, document),
    })),
  );
}

function bodyKind({ requestBody }: OpenApiOperation): Operation['body'] {
  const types = Object.keys(requestBody?.content ?? {});
  if (types.includes('application/zip')) return 'zip';
  if (types.includes('application/x-www-form-urlencoded')) return 'form';
  return types.includes('application/json') ? 'json' : 'none';
}

function successTypes({ responses }: OpenApiOperation): string[] {
  return Object.entries(responses)
    .filter(([status]) => status.startsWith('2'))
    .flatMap(([, { content = {} }]) => Object.keys(content));
}

/** A response that may be a file is not read: the caller gets it as it arrives. */
function responseKind(operation: OpenApiOperation): Operation['response'] {
  const types = successTypes(operation);
  if (types.includes('application/octet-stream')) return 'response';
  return types.includes('application/json') ? 'json' : 'text';
}

/** A quote changes nothing, although it is a POST. */
function retryKind(
  method: string,
  path: string,
  { parameters = [] }: OpenApiOperation,
  document: OpenApiDocument,
): Operation['retry'] {
  if (['get', 'put', 'delete'].includes(method) || path.startsWith('/quotes/')) return 'safe';
  const names = parameters.map(({ name, $ref = '' }) => name ?? findParameterName(document, $ref));
  return names.includes('Idempotency-Key') ? 'key' : 'never';
}

function findParameterName(document: OpenApiDocument, reference: string): string | undefined {
  const parameter = document.components.parameters?.[reference.split('/').at(-1) ?? ''];
  return (parameter as { name?: string } | undefined)?.name;
}

/**
 * Removes the parts that the types of the client must not depend on: error responses, because every error is an `ApiError`;
 * stages, which each site names itself; other formats than JSON; zips, which the client takes in more forms than a Blob.
 */
function toClientDocument(source: OpenApiDocument): OpenApiDocument {
  const document = structuredClone(source);
  for (const operation of Object.values(document.paths).flatMap((methods) => Object.values(methods))) {
    if (bodyKind(operation) === 'zip') delete operation.requestBody;
    for (const [status, response] of Object.entries(operation.responses)) {
      // A part of a file has the type of the whole.
      if (!status.startsWith('2') || status === '206') delete operation.responses[status];
      const json = response.content?.['application/json'];
      if (json) response.content = { 'application/json': json };
    }
  }
  document.components.schemas.Stage = {
    type: 'string',
    description: 'Stage of a job, in the words of its system. `GET /hpc/` lists them.',
  };
  return document;
}

async function generateTypes(document: OpenApiDocument): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'bursar-client-types-'));
  try {
    await createClient({
      input: document as unknown as UserConfig['input'],
      output: { path: folder, module: { extension: '.ts' } },
      plugins: ['@hey-api/typescript'],
      logs: { level: 'silent', file: false },
    });
    const types = await readFile(join(folder, 'types.gen.ts'), 'utf8');
    // Its one value is the address of a server, which is an option of the client.
    return types.replace(/export type ClientOptions = \{.*?\n\};\n\n/s, '');
  } finally {
    await rm(folder, { recursive: true });
  }
}

function generateOperations(operations: readonly Operation[]): string {
  const typeName = (id: string) => `${id.charAt(0).toUpperCase()}${id.slice(1)}`;
  const rows = operations.map(
    ({ id, method, path, body, response, retry }) =>
      `  ${id}: ${JSON.stringify([method, path, body, response, retry])},`,
  );
  const types = operations.map(({ id, body, response }) => {
    const result =
      response === 'response' ? 'Response' : response === 'text' ? 'string' : `types.${typeName(id)}Response`;
    return `  ${id}: { data: types.${typeName(id)}Data; body: '${body}'; result: ${result} };`;
  });
  return `// This file is generated from the OpenAPI document by \`npm run docs\`.
import type * as types from './types.ts';

/** Method, path, kind of the body, kind of the response, and whether a repetition is safe. */
export const operations = {
${rows.join('\n')}
} as const;

/** The types of each operation. */
export interface OperationTypes {
${types.join('\n')}
}
`;
}
