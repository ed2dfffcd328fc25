import { engineContract } from './engine-contract.ts';
import { localHarness } from './local-harness.ts';

engineContract('the local engine', () => localHarness());
