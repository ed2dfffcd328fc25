import type { AccountingFixture } from '../../support/accounting-fixture.ts';
import type { Quota } from '../../support/api.ts';
import { createProject } from '../../support/ledger.ts';

interface GrantedProjects {
  /** Creates a project with these members, 10,000 seconds and 100 KB each, and no reserve. */
  createProjectFor(...members: string[]): Promise<string>;
  /** Reads the quota of a member as an administrator. */
  getMemberQuota(user: string, project: string): Promise<Quota>;
}

/** Takes a function, because tests open the fixture later, in `before`. */
export function grantedProjects(getFixture: () => AccountingFixture): GrantedProjects {
  let projectCount = 0;
  return {
    createProjectFor: async (...members) => {
      const { admin, user } = getFixture();
      for (const member of members) await user(member);
      projectCount += 1;
      return await createProject(admin, `grants_${projectCount}`, members, { timeSeconds: 10_000, spaceKb: 100 });
    },
    getMemberQuota: async (user, project) =>
      (await getFixture().admin.get<Quota>(`/admin/quotas/${user}/${project}/`)).body,
  };
}
