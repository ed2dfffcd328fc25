import { setTimeout as sleep } from 'node:timers/promises';
import { killStorm } from '../crash/kill-storm.ts';
import { type SlurmCluster, startCluster } from '../support/slurm-cluster.ts';
import { slurmConfig } from './config.ts';

let cluster: SlurmCluster;
const rounds = 60;

/** Every few rounds the controller stalls, or is killed from one moment to the next. */
async function disturb(round: number): Promise<void> {
  if (round % 12 === 5) {
    await sleep(Math.random() * 300);
    await cluster.killController();
    await sleep(200);
    await cluster.startController();
  } else if (round % 12 === 11) {
    cluster.pauseController();
    await sleep(1500);
    cluster.resumeController();
  }
}

killStorm('a server in front of Slurm that is killed sixty times, while its controller is killed and stalls', {
  rounds,
  clients: 2,
  livesMs: 900,
  everyMs: 150,
  config: () => slurmConfig(cluster),
  disturb,
  before: async () => {
    cluster = await startCluster({ nodes: 2 });
  },
  after: () => cluster.stop(),
});
