/** The parts of an OpenAPI document that Bursar changes after @fastify/swagger has generated it. */
export interface OpenApiDocument {
  paths: Record<string, Record<string, Operation>>;
  components: {
    schemas: Record<string, Schema>;
    headers?: Record<string, Header>;
    parameters?: Record<string, Parameter>;
    responses?: Record<string, ResponseObject>;
  };
}

export interface Operation {
  security?: object[];
  parameters?: (Parameter | Reference)[];
  requestBody?: { required: boolean; content: Record<string, Media> };
  responses: Record<string, ResponseObject | Reference>;
}

export interface Reference {
  $ref: string;
}

export interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: Schema;
  content?: Record<string, Media>;
  example?: unknown;
}

export interface Header {
  description?: string;
  schema: Schema;
  example?: unknown;
}

export interface ResponseObject {
  description: string;
  headers?: Record<string, Header | Reference>;
  content?: Record<string, Media>;
}

export interface Media {
  schema?: Schema;
  example?: unknown;
}

export interface Schema {
  $ref?: string;
  type?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  default?: unknown;
  examples?: unknown[];
  contentMediaType?: string;
  contentSchema?: Schema;
}
