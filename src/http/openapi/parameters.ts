import Type, { type TProperties, type TSchema } from 'typebox';
import type { HpcSystem } from '../../domain/systems/system.ts';
import type { Operation } from '../operation.ts';
import { pathParams } from '../request/path-params.ts';
import { takesKey } from '../request/validation.ts';

type JsonObject = Record<string, unknown>;

/** A configured system, for examples that work. */
export interface ExampleSystem {
  system: HpcSystem;
  defaultProject: string;
}

/** Request headers that follow from the status of a response. */
const conditionalHeaders: Record<string, Record<string, string>> = {
  '206': {
    Range: 'The bytes to read, such as `bytes=0-99`.',
    'If-Range': 'The range is valid for the version with this `ETag` only; otherwise the whole file is sent.',
  },
  '304': { 'If-None-Match': 'The `ETag` of the version that you have. If it is current, the response is 304.' },
};

const keySchema = Type.String({
  description:
    'A text of your choice (1 to 200 visible ASCII characters), new for each request. Repeating a request with its key ' +
    'returns the first response.',
});

/** For the components of the document. */
export const parameterComponents = () =>
  Object.fromEntries(
    Object.values(conditionalHeaders)
      .flatMap((headers) => Object.entries(headers))
      .map(([name, description]) => [name, { name, in: 'header', description, schema: { type: 'string' } }]),
  );

/** The parameters of an operation: in its query, its path and its headers. */
export function toParameters(operation: Operation, example: ExampleSystem | undefined): JsonObject[] {
  const { route, query = {}, headers = {}, checkedHeaders = {}, key, responses } = operation;
  const pathNames = [...route.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as keyof typeof pathParams);
  const inPath = Object.fromEntries(pathNames.map((name) => [name, pathParams[name]]));
  const inHeaders = { ...headers, ...checkedHeaders };
  const keyParameter = toParameter('header', 'Idempotency-Key', keySchema, key === 'required');
  const references = Object.entries(conditionalHeaders)
    .filter(([status]) => status in responses)
    .flatMap(([, named]) => Object.keys(named))
    .map((name) => ({ $ref: `#/components/parameters/${name}` }));
  return [
    ...toParametersIn('query', query),
    ...toParametersIn('path', inPath),
    ...toParametersIn('header', inHeaders),
    ...(takesKey(operation) ? [keyParameter] : []),
    ...references,
  ];

  function toParametersIn(place: string, schemas: TProperties): JsonObject[] {
    return Object.entries(schemas).map(([name, schema]) => toParameter(place, name, schema, !isOptional(schema)));
  }

  function toParameter(place: string, name: string, schema: TSchema, required: boolean): JsonObject {
    const { description, examples, contentMediaType, contentSchema, ...rest } = schema as JsonObject;
    const value = (examples as unknown[] | undefined)?.[0] ?? exampleValue(name, example);
    const common = { in: place, name, required, description };
    if (contentMediaType === undefined) return { ...common, example: value, schema: rest };
    // A text that contains JSON is a parameter with `content` in OpenAPI.
    return { ...common, content: { [String(contentMediaType)]: { schema: contentSchema, example: value } } };
  }
}

/** A parameter with a default is required in its schema, because the validator fills it in. */
const isOptional = (schema: TSchema) => '~optional' in schema || 'default' in schema;

/** Names of a configured system, so that a request with the examples works. */
function exampleValue(name: string, example: ExampleSystem | undefined): unknown {
  if (name === 'hpc') return example?.system.name;
  if (name === 'project_name') return example?.defaultProject;
  return name === 'Payload' && example ? examplePayload(example.system) : undefined;
}

function examplePayload({ kind, tools }: HpcSystem): object {
  const [tool = 'NAME'] = Object.keys(tools);
  const program = kind === 'batch' ? { command: 'sbatch --wrap="hostname; date"' } : { tool };
  return { ...program, node_number: '1', core_number: '1', runtime: '0.1', title: 'First job' };
}
