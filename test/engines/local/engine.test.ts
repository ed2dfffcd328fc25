import { localSandbox } from '../../support/bubblewrap.ts';
import { engineContract } from '../engine-contract.ts';
import { localHarness } from './harness.ts';

engineContract('local engine', () => localHarness());
engineContract('local engine with isolated jobs', () => localHarness({ sandbox: localSandbox() }));
