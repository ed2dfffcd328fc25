import assert from 'node:assert/strict';
import { type AccountingFixture, openAccountingFixture } from '../../support/accounting-fixture.ts';
import type { ApiResponse } from '../../support/api.ts';
import { assertLedgerBalances, createProject, postAsAdmin } from '../../support/ledger.ts';
import { until } from '../../support/until.ts';

// Grants with a start and an end (POST /admin/grants/{hpc}/{project}/periods/).

export interface Period {
  id: number;
  starts: string;
  ends: string | null;
}

export const reason = 'the allocation of the year';

export const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString();

export type PeriodFixture = Awaited<ReturnType<typeof openPeriodFixture>>;

/** A server whose worker checks every 0.1 s whether a period has ended. `close` verifies the ledger first. */
export async function openPeriodFixture() {
  const fixture: AccountingFixture = await openAccountingFixture({ tuning: { expiryIntervalMs: 100 } });
  const { admin } = fixture;
  let projectCount = 0;

  async function postPeriod(
    project: string,
    body: Record<string, unknown>,
    key?: string,
  ): Promise<ApiResponse<Period>> {
    return await postAsAdmin<Period>(admin, `/admin/grants/${project}/periods/`, { reason, ...body }, key);
  }

  return {
    ...fixture,
    postPeriod,

    async createProjectFor(...members: string[]): Promise<string> {
      for (const member of members) await fixture.user(member);
      projectCount += 1;
      return await createProject(admin, `periods_${projectCount}`, members, { timeSeconds: 10_000 });
    },

    async createPeriod(project: string, body: Record<string, unknown>): Promise<Period> {
      const response = await postPeriod(project, body);
      assert.equal(response.status, 201, response.text);
      return response.body;
    },

    /** Creates a period and waits until it has started. Without `lastsSeconds` it has no end. */
    async createStartedPeriod(project: string, body: Record<string, unknown>, lastsSeconds?: number): Promise<Period> {
      // On a busy machine a near start can be in the past when the server handles the request.
      for (const delaySeconds of [0.3, 1, 3, 10]) {
        const ends = lastsSeconds === undefined ? {} : { ends: inSeconds(delaySeconds + lastsSeconds) };
        const response = await postPeriod(project, { starts: inSeconds(delaySeconds), ...ends, ...body });
        if (response.status === 409 && response.text.includes('in the past')) continue;
        assert.equal(response.status, 201, response.text);
        const starts = Date.parse(response.body.starts);
        await until('the period starts', () => (Date.now() >= starts ? true : undefined));
        return response.body;
      }
      throw new Error('every start was in the past');
    },

    async getTimeLeft(user: string, project: string): Promise<number> {
      const [hpc = '', name = ''] = project.split('/');
      return (await (await fixture.user(user)).quota(hpc, name)).time_left;
    },

    async close(): Promise<void> {
      await assertLedgerBalances(fixture.server);
      await fixture.dispose();
    },
  };
}
