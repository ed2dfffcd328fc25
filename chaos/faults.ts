import { setTimeout as sleep } from 'node:timers/promises';
import { defaultTuning } from '../src/composition/tuning.ts';
import type { TestPostgres } from '../test/support/postgres.ts';
import type { ServerProcess } from '../test/support/server-process.ts';
import type { SlurmCluster } from '../test/support/slurm-cluster.ts';
import type { Kills } from './compare.ts';

export interface FaultTargets {
  servers: ServerProcess[];
  startServer(): Promise<ServerProcess>;
  postgres: TestPostgres;
  cluster: SlurmCluster;
  nodes: readonly string[];
}

export interface FaultLog {
  counts: Map<string, number>;
  kills: Kills;
}

const pick = <T>(items: readonly T[]): T => items[Math.floor(Math.random() * items.length)] as T;

/** Injects one fault after the other until the signal aborts. Everything runs again when it returns. */
export async function injectFaults(targets: FaultTargets, log: FaultLog, signal: AbortSignal): Promise<void> {
  const faults = createFaults(targets, log);
  const names = Object.keys(faults) as (keyof typeof faults)[];
  for (let number = 0; !signal.aborted; number++) {
    // Slurm needs some time to start jobs after a crash: more faults would only fill its queue.
    await sleep(3000 + Math.random() * 15_000, undefined, { signal }).catch(() => undefined);
    // The controller causes most of the trouble: it is killed every third time.
    const name = number % 3 === 0 ? 'controller killed' : pick(names);
    log.counts.set(name, (log.counts.get(name) ?? 0) + 1);
    await faults[name]();
    resumeDrainedNodes(targets.cluster, log);
  }
}

function createFaults({ servers, startServer, postgres, cluster, nodes }: FaultTargets, log: FaultLog) {
  const restart = async (end: (server: ServerProcess) => Promise<unknown>) => {
    const index = Math.floor(Math.random() * servers.length);
    await end(servers[index] as ServerProcess);
    servers[index] = await startServer();
  };
  return {
    'server killed': () => restart((server) => server.kill()),
    'server stopped': () => restart((server) => server.stop()),
    async 'server suspended'() {
      const server = pick(servers);
      server.process.kill('SIGSTOP');
      await sleep(defaultTuning.leaseMs * 3);
      server.process.kill('SIGCONT');
    },
    async 'controller killed'() {
      log.kills.controllers.push(Date.now());
      await cluster.killController();
      await sleep(Math.random() * 8000);
      await cluster.startController();
    },
    async 'controller suspended'() {
      cluster.pauseController();
      await sleep(Math.random() * 15_000);
      cluster.resumeController();
    },
    async 'node killed with its jobs'() {
      const node = pick(nodes);
      log.kills.nodes.push(Date.now());
      await cluster.stopNode(node);
      // A node that is drained does not become idle until it is resumed.
      await cluster.startNode(node).catch(() => undefined);
    },
    async 'PostgreSQL restarted'() {
      await postgres.stop(pick(['SIGINT', 'SIGQUIT'] as const));
      await sleep(Math.random() * 3000);
      await postgres.start();
    },
  };
}

/** As the administrator of the cluster does: a killed controller drains nodes with the reason "Duplicate jobid". */
export function resumeDrainedNodes(cluster: SlurmCluster, log: FaultLog): void {
  const run = (...command: [program: string, ...args: string[]]) => {
    try {
      return cluster.run(...command);
    } catch {
      // The controller is busy, or the node is down because it starts at the moment. The next call tries again.
      return '';
    }
  };
  const names = run('sinfo', '--noheader', '--Node', '--states=drain,down', '--format=%N');
  for (const name of new Set(names.split('\n').filter(Boolean))) {
    log.counts.set('node resumed', (log.counts.get('node resumed') ?? 0) + 1);
    run('scontrol', 'update', `nodename=${name}`, 'state=resume');
  }
}
