import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { Place } from '../services/places.ts';

/** The segments that name a place, as every family of paths has them. */
export const hpcParam = { hpc: Type.String({ description: 'The HPC system, in lower case.' }) };
export const projectParams = { ...hpcParam, project_name: Type.String() };
export const jobParams = { ...projectParams, job_id: Type.String() };

interface Segments {
  hpc?: string;
  project_name?: string;
  job_id?: string;
}

/** The place that a path names, as far as it names one. */
export function placeOf(request: FastifyRequest): Place {
  const { hpc, project_name: project } = segmentsOf(request);
  return { ...(hpc === undefined ? {} : { hpc }), ...(project === undefined ? {} : { project }) };
}

/** The project that a path names, on a route whose path has one. */
export function projectOf(request: FastifyRequest): Required<Place> {
  const { hpc = '', project_name: project = '' } = segmentsOf(request);
  return { hpc, project };
}

export function jobIdOf(request: FastifyRequest): string {
  return segmentsOf(request).job_id ?? '';
}

/** A NUL names nothing, and not every database can be asked for it. */
function segmentsOf(request: FastifyRequest): Segments {
  const segments = Object.entries(request.params as Record<string, string>);
  return Object.fromEntries(segments.map(([name, value]) => [name, value.replaceAll('\0', '\uFFFD')]));
}
