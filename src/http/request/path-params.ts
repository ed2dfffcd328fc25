import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { PathScope } from '../../services/scope.ts';

/** The segments that name a place, as every family of paths has them. */
export const hpcParam = { hpc: Type.String({ description: 'The HPC system, in lower case.' }) };
export const projectParams = { ...hpcParam, project_name: Type.String() };
export const jobParams = { ...projectParams, job_id: Type.String() };

/** The place that a path names, as far as it names one. */
export function pathScope(request: FastifyRequest): PathScope {
  const hpc = segment(request, 'hpc');
  const project = segment(request, 'project_name');
  return { ...(hpc === undefined ? {} : { hpc }), ...(project === undefined ? {} : { project }) };
}

/** The project that a path names, on a route whose path has one. */
export function projectPath(request: FastifyRequest): Required<PathScope> {
  return { hpc: segment(request, 'hpc') ?? '', project: segment(request, 'project_name') ?? '' };
}

export function jobIdOf(request: FastifyRequest): string {
  return segment(request, 'job_id') ?? '';
}

/** A NUL names nothing, and not every database can be asked for it. */
function segment(request: FastifyRequest, name: keyof typeof jobParams): string | undefined {
  return (request.params as Record<string, string | undefined>)[name]?.replaceAll('\0', '\uFFFD');
}
