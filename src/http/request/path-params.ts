import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import { BursarError } from '../../domain/errors.ts';
import type { PathScope } from '../../services/scope.ts';

/** OpenAPI schemas of the path parameters. */
export const userParam = { user_id: Type.String({ description: 'Identifier of the user.' }) };
export const hpcParam = { hpc: Type.String({ description: 'Name of the HPC system, in lower case.' }) };
export const projectParams = { ...hpcParam, project_name: Type.String() };
export const jobParams = { ...projectParams, job_id: Type.String() };

/** Query parameters that limit a list over all users to a system, and to one of its projects. */
export const scopeQuery = {
  hpc: Type.Optional(Type.String({ description: 'Only this HPC system.' })),
  project_name: Type.Optional(Type.String({ description: 'Only this project. Needs `hpc`.' })),
};
export const userQuery = { user_id: Type.Optional(Type.String({ description: 'Only this user.' })) };

/** The system and the project in a path, if it has them. */
export function pathScope(request: FastifyRequest): PathScope {
  const hpc = segment(request, 'hpc');
  const project = segment(request, 'project_name');
  return { ...(hpc === undefined ? {} : { hpc }), ...(project === undefined ? {} : { project }) };
}

/** The project in a path, on routes that require one. */
export function projectScope(request: FastifyRequest): Required<PathScope> {
  return { hpc: segment(request, 'hpc') ?? '', project: segment(request, 'project_name') ?? '' };
}

/** The project in a path or query, if it names one. */
export function projectOf(request: FastifyRequest): Required<PathScope> | undefined {
  const { hpc, project } = { ...queryScope(request), ...pathScope(request) };
  return hpc === undefined || project === undefined ? undefined : { hpc, project };
}

export function jobIdOf(request: FastifyRequest): string {
  return segment(request, 'job_id') ?? '';
}

export function userIdOf(request: FastifyRequest): string {
  return segment(request, 'user_id') ?? '';
}

/** A numeric id in a path. 0 if the path segment is not a number: no record has that id. */
export function numericIdOf(request: FastifyRequest, name: string): number {
  const text = (request.params as Record<string, string | undefined>)[name] ?? '';
  return /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

/** The system and the project in the query of a list over all users. */
export function queryScope(request: FastifyRequest): PathScope {
  const hpc = queryValue(request, 'hpc');
  const project = queryValue(request, 'project_name');
  if (project !== undefined && hpc === undefined) {
    const field = { field: 'project_name', message: 'needs hpc' };
    throw new BursarError('bad_request', '"project_name" needs "hpc": projects belong to an HPC system.', {
      fields: [field],
    });
  }
  return { ...(hpc === undefined ? {} : { hpc }), ...(project === undefined ? {} : { project }) };
}

/** The user in the query of a list over all users, if there is one. */
export const queryUserId = (request: FastifyRequest) => queryValue(request, 'user_id');

function segment(request: FastifyRequest, name: keyof typeof jobParams | keyof typeof userParam): string | undefined {
  const value = (request.params as Record<string, string | undefined>)[name];
  return value === undefined ? undefined : withoutNul(value);
}

function queryValue(
  request: FastifyRequest,
  name: keyof typeof scopeQuery | keyof typeof userQuery,
): string | undefined {
  const value = (request.query as Record<string, string | string[] | undefined>)[name];
  if (typeof value !== 'object') return value === undefined ? undefined : withoutNul(value);
  const fields = [{ field: name, message: 'must be given once' }];
  throw new BursarError('bad_request', `The query is not valid: "${name}" must be given once.`, { fields });
}

/** Replaces NUL, which PostgreSQL does not accept in a text. No name contains either character. */
export const withoutNul = (text: string) => text.replaceAll('\0', '\uFFFD');
