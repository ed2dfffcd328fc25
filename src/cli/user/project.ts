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

/**
 * The named project: `system/project`, or its name alone if one system has it. Without a name, the only project. Administrators
 * name a project of another user.
 */
export async function chooseProject(
  { client, signal }: Context,
  name: string | undefined,
  user?: string,
): Promise<ProjectPath> {
  if (name?.includes('/')) return parseProject(name);
  const { api } = await client();
  const projects =
    user === undefined
      ? (await api.getMe({ signal })).projects
      : await api.listQuotasOfUser({ path: { user_id: user }, signal });
  const matches = projects.filter((project) => name === undefined || project.project_name === name);
  const [match, ...others] = matches;
  if (match !== undefined && others.length === 0)
    return { hpc: match.project_hpc.toLowerCase(), project_name: match.project_name };
  const known = projects.map((project) => `${project.project_hpc.toLowerCase()}/${project.project_name}`).join(', ');
  const owner = user === undefined ? 'your projects' : `the projects of ${user}`;
  const cause = name === undefined ? 'Which project?' : `"${name}" is not the name of one of ${owner}.`;
  throw usageError(cause, `Use one of: ${known}`);
}
