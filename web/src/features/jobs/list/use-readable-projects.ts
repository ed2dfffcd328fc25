import { useQuery } from '@tanstack/react-query';
import { meQuery, projectsQuery } from '../../../client/queries.ts';
import { managedProjects, mayAdminister, type ProjectName } from '../../../shared/permissions.ts';
import { systemName } from '../../../shared/system-name.ts';

/** The projects whose jobs the user may read: all for staff, and otherwise those that the user manages. */
export function useReadableProjects(): { projects: readonly ProjectName[]; isStaff: boolean } {
  const { data: me } = useQuery(meQuery);
  const isStaff = me !== undefined && mayAdminister(me, 'jobs.read');
  const { data: all = [] } = useQuery({ ...projectsQuery, enabled: isStaff });
  if (!isStaff) return { projects: me === undefined ? [] : managedProjects(me), isStaff };
  return {
    projects: all.map((each) => ({ hpc: systemName(each), project: each.project_name })),
    isStaff,
  };
}
