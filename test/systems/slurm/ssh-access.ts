import { join } from 'node:path';
import { killControlMasters, startSshd } from '../../support/sshd.ts';
import type { ClusterAccess } from './service-suite.ts';

/** Reaches Slurm by ssh to this host. `dropConnection` alternates between killing the client and restarting sshd. */
export async function startSshAccess(): Promise<ClusterAccess> {
  const sshd = await startSshd();
  const { controlFolder: _, environment: __, ...ssh } = sshd.options;
  let dropCount = 0;
  return {
    engine: { ssh },
    dropConnection: async ({ data }) => {
      dropCount += 1;
      if (dropCount % 2 === 0) await sshd.restart();
      else killControlMasters(join(data, 'ssh'));
    },
    close: sshd.close,
  };
}
