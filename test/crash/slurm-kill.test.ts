import { setTimeout as sleep } from 'node:timers/promises';
import { slurmConfig } from '../slurm/config.ts';
import { type SlurmCluster, startCluster } from '../support/slurm-cluster.ts';
import { testKilledServer } from './kill-suite.ts';

let cluster: SlurmCluster;

/** In every sixth round the controller has its own accident: it is killed, or stalls for longer than a server lives. */
async function disturbController(round: number): Promise<void> {
  if (round % 6 !== 5) return;
  await sleep(Math.random() * 300);
  if (round % 12 === 5) {
    await cluster.killController();
    await cluster.startController();
  } else {
    cluster.pauseController();
    await sleep(1500);
    cluster.resumeController();
  }
}

testKilledServer('a server in front of Slurm that is killed again and again, the controller too', {
  rounds: 60,
  clients: 2,
  maxLifetimeMs: 1000,
  submitIntervalMs: 300,
  // A controller that is killed can forget that a job has run: it gives it up, or starts it again.
  acceptedReasons: /^a node of the job failed|^Slurm started the job a second time/,
  config: () => slurmConfig(cluster),
  disturb: disturbController,
  before: async () => {
    cluster = await startCluster({ nodes: 2 });
  },
  after: () => cluster.stop(),
});
