import { createLocalShell } from '../../src/shell/local-shell.ts';
import { createSpawnClient } from '../../src/shell/spawn-client.ts';
import { shellContract, variable } from './shell-contract.ts';

const environment = { [variable.name]: variable.value };

shellContract('local shell', async () => {
  const shell = createLocalShell({ environment });
  return { shell, close: () => shell.close() };
});

shellContract('local shell with a spawn server', async () => {
  const shell = createLocalShell({ environment, startProcess: createSpawnClient() });
  return { shell, close: () => shell.close() };
});
