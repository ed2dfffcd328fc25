import { engineContract } from '../engine-contract.ts';
import { slurmHarness } from './slurm-harness.ts';

engineContract('the Slurm engine', () => slurmHarness());
