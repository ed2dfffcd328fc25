import type { Me, System } from '@bursar/client';
import type { SubmitValues } from './values.ts';

export interface CompletedForm {
  values: SubmitValues;
  system: System;
  /** The projects on the system that the user can submit to. */
  projects: Me['projects'];
}

/** Fills in what has not been chosen: the first system with a project of the user, its project, and an only tool. */
export function completeValues(values: SubmitValues, systems: readonly System[], me: Me): CompletedForm | null {
  const projectsOf = ({ project_hpc: name }: System) =>
    me.projects.filter(({ project_hpc, status }) => project_hpc === name && status === 'active');
  const system =
    systems.find(({ hpc }) => hpc === values.hpc) ?? systems.find((each) => projectsOf(each).length > 0) ?? systems[0];
  if (system === undefined) return null;
  const projects = projectsOf(system);
  const names = projects.map(({ project_name: name }) => name);
  const [firstProject = ''] = names.includes(system.default_project) ? [system.default_project] : names;
  const tools = system.tools.map(({ name }) => name);
  return {
    system,
    projects,
    values: {
      ...values,
      hpc: system.hpc,
      project: names.includes(values.project) ? values.project : firstProject,
      tool: tools.includes(values.tool) ? values.tool : tools.length === 1 ? (tools[0] ?? '') : '',
    },
  };
}
