import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isLongRun } from '../../support/long-run.ts';
import { readProcessFile } from '../../support/process-file.ts';
import { type SlurmCluster, startCluster } from '../../support/slurm-cluster.ts';
import { slurmConfig } from '../../support/slurm-config.ts';
import { findClusterProcesses } from '../../support/slurm-processes.ts';
import { until } from '../../support/until.ts';
import { testKilledServer } from './kill-suite.ts';

let cluster: SlurmCluster;

const hasRunningJob = () =>
  findClusterProcesses(cluster.folder).some((pid) => readProcessFile(pid, 'comm').startsWith('slurm_script'));

/** In every third round the controller is killed, or paused for longer than the lifetime of a server. */
async function disturbController(round: number): Promise<void> {
  if (round % 3 !== 2) return;
  await sleep(Math.random() * 300);
  if (round % 6 === 2) {
    await cluster.killController();
    // The new controller kills jobs that it has forgotten. They would be right to fail, so none runs when it starts.
    await until('no job runs', () => !hasRunningJob() || undefined);
    await cluster.startController();
  } else {
    cluster.pauseController();
    await sleep(1500);
    cluster.resumeController();
  }
}

/**
 * A killed controller gives the ids of forgotten jobs again. A node that still knows the old job drains itself with the
 * reason "Duplicate jobid", and nothing runs on it until an administrator resumes it.
 */
function resumeDrainedNodes(): void {
  const run = (...command: [program: string, ...args: string[]]) => {
    try {
      return cluster.run(...command);
    } catch {
      // The controller is busy. The next call tries again.
      return '';
    }
  };
  const drained = run('sinfo', '--noheader', '--Node', '--states=drain', '--format=%N').split('\n').filter(Boolean);
  // Printed, because a run that needed this would have hung without it.
  if (drained.length > 0) console.log(`resumed drained nodes: ${drained.join(', ')}`);
  for (const name of new Set(drained)) run('scontrol', 'update', `nodename=${name}`, 'state=resume');
}

function findRefusedRefs(): Set<string> {
  const folder = join(cluster.folder, 'log');
  const logs = readdirSync(folder).map((name) => readFileSync(join(folder, name), 'utf8'));
  const pattern = /Could not launch job (\d+) and not able to requeue it, cancelling job/g;
  return new Set(logs.flatMap((log) => [...log.matchAll(pattern)].map(([, ref = '']) => ref)));
}

testKilledServer('a server with Slurm that is killed repeatedly, together with the controller', {
  rounds: isLongRun ? 24 : 6,
  clients: 2,
  maxLifetimeMs: 1000,
  submitIntervalMs: 300,
  config: () => slurmConfig(cluster),
  disturb: disturbController,
  repair: resumeDrainedNodes,
  findRefusedRefs,
  before: async () => {
    cluster = await startCluster({ nodes: 2 });
  },
  after: () => cluster.stop(),
});
