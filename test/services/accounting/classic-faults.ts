import { type AccountingFixture, openAccountingFixture } from '../../support/accounting-fixture.ts';

/** What each member has of time. */
export const granted = 200_000;

/** A server for the classic faults: one system that charges for cores, one for nodes, and a project that grants nothing. */
export function openFaultFixture(): Promise<AccountingFixture> {
  return openAccountingFixture({
    ownProcess: true,
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
