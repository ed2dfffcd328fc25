import type { Context } from '../context.ts';
import { quotaColumns } from '../quotas/quota.ts';

interface QuotasOptions {
  user?: string;
  system?: string;
  project?: string;
}

/** Lists the quotas of all users, or of one. */
export async function list(context: Context, { user, system, project }: QuotasOptions): Promise<void> {
  const { api } = await context.client();
  const { signal } = context;
  const query = {
    ...(system === undefined ? {} : { hpc: system }),
    ...(project === undefined ? {} : { project_name: project }),
  };
  const quotas =
    user === undefined
      ? await api.listQuotasOfAllUsers({ query, signal })
      : (await api.listQuotasOfUser({ path: { user_id: user }, signal })).filter(
          (quota) =>
            (system === undefined || quota.project_hpc.toLowerCase() === system) &&
            (project === undefined || quota.project_name === project),
        );
  const columns = quotaColumns(context.isTerminal ? await api.listSystems({ signal }) : [], { user: true });
  await context.printTable(quotas, columns, 'There are no quotas.');
}
