import { engineContract } from '../engine-contract.ts';
import { localHarness } from './harness.ts';

engineContract('local engine', () => localHarness());
