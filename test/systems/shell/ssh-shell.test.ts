import { createSpawnClient } from '../../../src/shell/spawn-client.ts';
import { createSshShell } from '../../../src/shell/ssh-shell.ts';
import { shellContract, variable } from '../../shell/shell-contract.ts';
import { startSshd } from '../../support/sshd.ts';

shellContract('ssh shell', async () => {
  const sshd = await startSshd();
  const shell = createSshShell({
    ...sshd.options,
    environment: { [variable.name]: variable.value },
    startProcess: createSpawnClient(),
  });
  return {
    shell,
    close: async () => {
      await shell.close();
      await sshd.close();
    },
  };
});
