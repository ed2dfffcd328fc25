import { engineContract } from '../engine-contract.ts';
import { slurmSshHarness } from './slurm-harness.ts';

engineContract('the Slurm engine over ssh', () => slurmSshHarness());
