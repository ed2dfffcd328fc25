import type { AccountingFixture } from '../../support/accounting-fixture.ts';
import type { Quota } from '../../support/api.ts';
import { createProject } from '../../support/ledger.ts';

interface GrantedProjects {
  /** A project of their own for these users, 10,000 seconds and 100 KB each, and nothing in reserve. */
  projectOf(...members: string[]): Promise<string>;
  /** What is left of a member's quota, as administrators see it. */
  leftOf(user: string, project: string): Promise<Quota>;
}

/** Projects on the fixture that is there by then: tests open it after they have asked for this. */
export function grantedProjects(getFixture: () => AccountingFixture): GrantedProjects {
  let projects = 0;
  return {
    projectOf: async (...members) => {
      const { admin, user } = getFixture();
      for (const member of members) await user(member);
      projects += 1;
      return await createProject(admin, `grants_${projects}`, members, { timeSeconds: 10_000, spaceKb: 100 });
    },
    leftOf: async (user, project) => (await getFixture().admin.get<Quota>(`/admin/quotas/${user}/${project}/`)).body,
  };
}
