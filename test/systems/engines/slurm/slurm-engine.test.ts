import { describe } from 'node:test';
import { engineContract } from '../../../engines/engine-contract.ts';
import { slurmIsolation } from '../../../support/bubblewrap.ts';
import { slurmHarness, slurmSshHarness } from './slurm-harness.ts';

// The tests have their own partitions, and mostly wait for Slurm.
describe('Slurm engines', { concurrency: true }, () => {
  engineContract('the Slurm engine, isolated', () => slurmHarness({ isolation: slurmIsolation() }), { concurrency: 2 });
  engineContract('the Slurm engine over ssh', () => slurmSshHarness(), { concurrency: 2 });
});
