import { join } from 'node:path';
import { killMasters, startSshd } from '../support/sshd.ts';
import { serviceSuite } from './service-suite.ts';

serviceSuite('over ssh', async () => {
  const sshd = await startSshd();
  const { controlFolder: _, environment: __, ...ssh } = sshd.options;
  let drops = 0;
  return {
    engine: { ssh },
    // By turns on this side and on the other.
    disturb: async ({ data }) => {
      drops += 1;
      if (drops % 2 === 0) await sshd.restart();
      else killMasters(join(data, 'ssh'));
    },
    close: sshd.close,
  };
});
