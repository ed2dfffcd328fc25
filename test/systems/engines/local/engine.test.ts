import { engineContract } from '../../../engines/engine-contract.ts';
import { localHarness } from '../../../engines/local/harness.ts';
import { localSandbox } from '../../../support/bubblewrap.ts';

engineContract('the local engine with isolated jobs', () => localHarness({ sandbox: localSandbox() }));
