import { join } from 'node:path';
import { killMasters, startSshd } from '../support/sshd.ts';
import type { Reach } from './service-suite.ts';

/** Slurm by ssh to this very host; the connection is dropped by turns on this side and on the other. */
export async function sshReach(): Promise<Reach> {
  const sshd = await startSshd();
  const { controlFolder: _, environment: __, ...ssh } = sshd.options;
  let drops = 0;
  return {
    engine: { ssh },
    disturb: async ({ data }) => {
      drops += 1;
      if (drops % 2 === 0) await sshd.restart();
      else killMasters(join(data, 'ssh'));
    },
    close: sshd.close,
  };
}
