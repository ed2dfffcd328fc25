import { describe } from 'node:test';
import { engineContract } from '../../../engines/engine-contract.ts';
import { slurmIsolation } from '../../../support/bubblewrap.ts';
import { slurmHarness, slurmSshHarness } from './slurm-harness.ts';

// Every test has its own cluster and mostly waits: Slurm takes 60 to 90 s to enforce its shortest time limit.
describe('Slurm engines', { concurrency: true }, () => {
  engineContract('the Slurm engine, isolated', () => slurmHarness({ isolation: slurmIsolation() }), { concurrency: 2 });
  engineContract('the Slurm engine over ssh', () => slurmSshHarness(), { concurrency: 2 });
});
