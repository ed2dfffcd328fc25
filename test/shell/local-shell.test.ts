import { createLocalShell } from '../../src/shell/local-shell.ts';
import { shellContract, variable } from './shell-contract.ts';

shellContract('local shell', async () => {
  const shell = createLocalShell({ environment: { [variable.name]: variable.value } });
  return { shell, close: () => shell.close() };
});
