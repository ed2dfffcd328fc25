import { startServer } from '../test/support/server.ts';

export interface OpenApiDocument {
  paths: Record<string, Record<string, OpenApiOperation>>;
  components: { schemas: Record<string, Record<string, unknown>>; [kind: string]: Record<string, unknown> };
  [key: string]: unknown;
}

export interface OpenApiOperation {
  operationId: string;
  tags: string[];
  /** The action of the policy that it performs. Public operations have none. */
  'x-action'?: string;
  parameters?: OpenApiParameter[];
  requestBody?: { content?: Record<string, unknown> };
  responses: Record<string, { content?: Record<string, unknown>; $ref?: string }>;
}

export interface OpenApiParameter {
  name?: string;
  in?: string;
  $ref?: string;
}

/** The document that a real server with the shipped configuration serves at /openapi.json. */
export async function readOpenApiDocument(): Promise<OpenApiDocument> {
  const server = await startServer();
  try {
    return (await (await fetch(`${server.url}/openapi.json`)).json()) as OpenApiDocument;
  } finally {
    await server.dispose();
  }
}
