import { join } from 'node:path';
import { createRemoteWorkspaces } from '../../../src/files/workspaces/remote/remote-workspaces.ts';
import { createSshShell } from '../../../src/shell/ssh-shell.ts';
import { startSshd } from '../../support/sshd.ts';
import { readerContract } from './reader-contract.ts';
import { hostileReaderContract } from './reader-hostile-contract.ts';

async function start() {
  const sshd = await startSshd();
  const shell = createSshShell(sshd.options);
  return {
    createWorkspaces: (root: string, folder: string) =>
      createRemoteWorkspaces({ shell, root, staging: join(folder, 'staging'), readTimeoutMs: 30_000 }),
    raceRounds: 40,
    close: async () => {
      await shell.close();
      await sshd.close();
    },
  };
}
readerContract('over ssh', start);
hostileReaderContract('over ssh', start);
