import { type AccountingFixture, openAccountingFixture } from '../../support/accounting-fixture.ts';

/** Time grant of each member, in seconds. */
export const granted = 200_000;

/** Starts a server with a system that charges for cores, one that charges for nodes, and a project without a grant. */
export function openFaultFixture(): Promise<AccountingFixture> {
  return openAccountingFixture({
    timeSeconds: granted,
    adjust: (config) => {
      for (const system of Object.values(config.systems)) system.engine.cores = 4;
      const { hpc_two } = config.systems;
      if (hpc_two === undefined) throw new Error('the shipped configuration has no hpc_two');
      hpc_two.charge = 'node';
      const [, second] = hpc_two.projects;
      if (second !== undefined) second.grant = { timeSeconds: 0, spaceKb: 0 };
    },
  });
}
