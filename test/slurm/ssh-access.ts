import { join } from 'node:path';
import { killControlMasters, startSshd } from '../support/sshd.ts';
import type { ClusterAccess } from './service-suite.ts';

/** Slurm by ssh to this very host; the connection is dropped by turns on this side and on the other. */
export async function startSshAccess(): Promise<ClusterAccess> {
  const sshd = await startSshd();
  const { controlFolder: _, environment: __, ...ssh } = sshd.options;
  let drops = 0;
  return {
    engine: { ssh },
    dropConnection: async ({ data }) => {
      drops += 1;
      if (drops % 2 === 0) await sshd.restart();
      else killControlMasters(join(data, 'ssh'));
    },
    close: sshd.close,
  };
}
