import { useQuery } from '@tanstack/react-query';
import { bursar } from '../../../client/bursar.ts';
import { meQuery } from '../../../client/queries.ts';
import { managedProjects, mayAdminister, type ProjectName } from '../../../shared/permissions.ts';

/** The projects whose jobs the user may read: all for staff, and otherwise those that the user manages. */
export function useReadableProjects(): { projects: readonly ProjectName[]; isStaff: boolean } {
  const { data: me } = useQuery(meQuery);
  const isStaff = me !== undefined && mayAdminister(me, 'jobs.read');
  const { data: all = [] } = useQuery({
    queryKey: ['projects'],
    queryFn: ({ signal }) => bursar.api.listProjects({ signal }),
    enabled: isStaff,
  });
  if (!isStaff) return { projects: me === undefined ? [] : managedProjects(me), isStaff };
  return {
    projects: all.map((each) => ({ hpc: each.project_hpc.toLowerCase(), project: each.project_name })),
    isStaff,
  };
}
