import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { PathScope } from '../../services/scope.ts';

/** OpenAPI schemas of the path parameters. */
export const hpcParam = { hpc: Type.String({ description: 'Name of the HPC system, in lower case.' }) };
export const projectParams = { ...hpcParam, project_name: Type.String() };
export const jobParams = { ...projectParams, job_id: Type.String() };

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

export function jobIdOf(request: FastifyRequest): string {
  return segment(request, 'job_id') ?? '';
}

/** Replaces NUL, which PostgreSQL does not accept in a text. No name contains either character. */
function segment(request: FastifyRequest, name: keyof typeof jobParams): string | undefined {
  return (request.params as Record<string, string | undefined>)[name]?.replaceAll('\0', '\uFFFD');
}
