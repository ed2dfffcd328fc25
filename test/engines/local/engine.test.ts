import { engineContract } from '../engine-contract.ts';
import { localHarness } from './harness.ts';

engineContract('the local engine', () => localHarness());
