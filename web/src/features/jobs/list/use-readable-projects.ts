import { useQuery } from '@tanstack/react-query';
import { bursar } from '../../../client/bursar.ts';
import { meQuery } from '../../../client/queries.ts';
import type { ProjectName } from './job-filters.tsx';

const staffRoles = ['auditor', 'operator', 'administrator'];

/** The projects whose jobs the user may read: all for staff, and otherwise those that the user manages. */
export function useReadableProjects(): { projects: readonly ProjectName[]; isStaff: boolean } {
  const { data: me } = useQuery(meQuery);
  const isStaff = me?.roles.some((role) => staffRoles.includes(role)) ?? false;
  const { data: all = [] } = useQuery({
    queryKey: ['projects'],
    queryFn: ({ signal }) => bursar.api.listProjects({ signal }),
    enabled: isStaff,
  });
  const managed = me?.projects.filter(({ role, status }) => role === 'manager' && status === 'active') ?? [];
  const projects = (isStaff ? all : managed).map((each) => ({
    hpc: each.project_hpc.toLowerCase(),
    project: each.project_name,
  }));
  return { projects, isStaff };
}
