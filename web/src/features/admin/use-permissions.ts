import { useQuery } from '@tanstack/react-query';
import { meQuery } from '../../client/queries.ts';
import { type Action, mayAdminister, type ProjectName } from '../../shared/permissions.ts';

/** Returns a function that says whether the signed-in user may perform an action on resources of others. */
export function usePermissions(): (action: Action, project?: ProjectName) => boolean {
  const { data: me } = useQuery(meQuery);
  return (action, project) => me !== undefined && mayAdminister(me, action, project);
}
