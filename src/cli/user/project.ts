import type { Context } from './context.ts';
import { usageError } from './errors.ts';

export interface ProjectPath {
  hpc: string;
  project_name: string;
}

/** How a project is named on the command line, for help texts. */
export const projectDescription = 'system and project, such as hpc_one/proj_hpc_one_01';

/** Parses `system/project`. */
export function parseProject(text: string): ProjectPath {
  const [, hpc, name] = /^([^/\s]+)\/([^/\s]+)$/.exec(text) ?? [];
  if (hpc === undefined || name === undefined)
    throw usageError(`"${text}" names no project.`, 'Write system/project, such as hpc_one/proj_hpc_one_01');
  return { hpc: hpc.toLowerCase(), project_name: name };
}

/** The named project: `system/project`, or its name alone if one system has it. Without a name, the only project. */
export async function chooseProject({ client, signal }: Context, name: string | undefined): Promise<ProjectPath> {
  if (name?.includes('/')) return parseProject(name);
  const { api } = await client();
  const { projects } = await api.getMe({ signal });
  const matches = projects.filter((project) => name === undefined || project.project_name === name);
  const [match, ...others] = matches;
  if (match !== undefined && others.length === 0)
    return { hpc: match.project_hpc.toLowerCase(), project_name: match.project_name };
  const known = projects.map((project) => `${project.project_hpc.toLowerCase()}/${project.project_name}`).join(', ');
  const cause = name === undefined ? 'Which project?' : `"${name}" is not the name of one of your projects.`;
  throw usageError(cause, `Use one of: ${known}`);
}
