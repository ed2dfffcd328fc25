import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import { BursarError } from '../../domain/errors.ts';
import type { JobPath } from '../../services/jobs/find-job.ts';
import type { Owner, PathScope } from '../../services/scope.ts';

/** The parameters of all paths, for the OpenAPI document. */
export const pathParams = {
  hpc: Type.String({ description: 'Name of the HPC system, in lower case.' }),
  project_name: Type.String(),
  job_id: Type.String(),
  user_id: Type.String({ description: 'Identifier of the user.' }),
  path: Type.String({ description: 'A path from the list of files.' }),
  name: Type.String({ description: 'A name from the list.', examples: ['bursar.mjs'] }),
  token_id: Type.String({ description: 'The id of the token.' }),
  session_id: Type.String({ description: 'The id of the session.' }),
  webhook_id: Type.String({ description: 'The id of the webhook.' }),
  delivery_id: Type.String({ description: 'The id of the delivery.' }),
};

const numericParams = ['token_id', 'session_id', 'webhook_id', 'delivery_id'] as const;

type NameOf<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}` ? Name | NameOf<Rest> : never;

/** The parameters of a path, such as `/jobs/{hpc}/`. */
export type Params<Path extends string> = {
  [Name in NameOf<Path>]: Name extends (typeof numericParams)[number] ? number : string;
};

/** Query parameters that limit a list over all users to a system, and to one of its projects. */
export const scopeQuery = {
  hpc: Type.Optional(Type.String({ description: 'Only this HPC system.' })),
  project_name: Type.Optional(Type.String({ description: 'Only this project. Needs `hpc`.' })),
};
export const userQuery = { user_id: Type.Optional(Type.String({ description: 'Only this user.' })) };

/** Completes the parameters that the router has found in the path. */
export function readPathParams(request: FastifyRequest): void {
  const params = request.params as Record<string, string | number>;
  for (const name in params) {
    const text = String(params[name]);
    const isNumeric = (numericParams as readonly string[]).includes(name);
    params[name === '*' ? 'path' : name] = isNumeric ? toRecordId(text) : withoutNul(text);
  }
}

/** 0 if the text is not a number: no record has that id. */
const toRecordId = (text: string) => (/^\d{1,15}$/.test(text) ? Number(text) : 0);

/** Replaces NUL, which PostgreSQL does not accept in a text. No name contains either character. */
export const withoutNul = (text: string) => (text.includes('\0') ? text.replaceAll('\0', '\uFFFD') : text);

/** The project in a path that names one. */
export function toProject({ hpc, project_name: project }: { hpc: string; project_name: string }): Required<PathScope> {
  return { hpc, project };
}

/** The job in a path, if it belongs to the owner. Undefined: of any owner. */
export function toJob(params: Params<'{hpc}{project_name}{job_id}'>, owner: Owner): JobPath {
  return { owner, ...toProject(params), jobId: params.job_id };
}

/** The system and the project in a path or a query, if it names them. */
export function toScope({ hpc, project_name: project }: { hpc?: string; project_name?: string }): PathScope {
  if (project !== undefined && hpc === undefined) {
    const fields = [{ field: 'project_name', message: 'needs hpc' }];
    throw new BursarError('bad_request', '"project_name" needs "hpc": projects belong to an HPC system.', { fields });
  }
  return { ...(hpc === undefined ? {} : { hpc }), ...(project === undefined ? {} : { project }) };
}

/** The same of a request whose query was not checked yet. */
export function scopeOf(request: FastifyRequest): PathScope {
  const query = request.query as Record<string, string | string[] | undefined>;
  const fromQuery = (name: keyof typeof scopeQuery) => {
    const value = query[name];
    if (typeof value !== 'object') return value === undefined ? {} : { [name]: withoutNul(value) };
    const fields = [{ field: name, message: 'must be given once' }];
    throw new BursarError('bad_request', `The query is not valid: "${name}" must be given once.`, { fields });
  };
  return toScope({ ...fromQuery('hpc'), ...fromQuery('project_name'), ...(request.params as object) });
}

/** The project in a path or query, if it names one. */
export function projectOf(request: FastifyRequest): Required<PathScope> | undefined {
  const { hpc, project } = scopeOf(request);
  return hpc === undefined || project === undefined ? undefined : { hpc, project };
}
