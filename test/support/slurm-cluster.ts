import { randomBytes } from 'node:crypto';
import { existsSync, rmSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { attempt, killAll } from './attempt.ts';
import { createDaemons } from './daemons.ts';
import { freePorts } from './ports.ts';
import { slurmConf, slurmdbdConf } from './slurm-conf.ts';
import { databaseSocketPath, startDatabase } from './slurm-database.ts';
import {
  findClusterProcesses,
  findNodeProcesses,
  findStepDaemons,
  killNodeProcesses,
  removeCgroups,
} from './slurm-processes.ts';

export interface ClusterOptions {
  nodes?: number;
  /** Seconds that squeue lists finished jobs. slurmctld removes them every 10 s, so they may stay longer. */
  minJobAge?: number;
  /** Further lines of slurm.conf. A setting replaces the default one. */
  extraConf?: string[];
  /** Lines of cgroup.conf. Without them Slurm uses no cgroups. */
  cgroupConf?: string[];
  /** Starts slurmdbd with a private MariaDB. */
  database?: boolean;
}

export interface SlurmCluster {
  /** The environment that makes Slurm's commands use this cluster. */
  env: { SLURM_CONF: string };
  /** Contains all files of the cluster. `stop` removes it, with the files that a test adds. */
  folder: string;
  controllerPort: number;
  /** Runs a command as an administrator of the cluster, and returns its stdout. */
  run(program: string, ...args: string[]): string;
  stop(): Promise<void>;
  /** SIGTERM: slurmctld saves its state. */
  stopController(): Promise<void>;
  startController(): Promise<void>;
  /** SIGKILL: slurmctld saves nothing. */
  killController(): Promise<void>;
  /** SIGKILL, then a start with an empty state folder. */
  wipeController(): Promise<void>;
  pauseController(): void;
  resumeController(): void;
  /** SIGKILL to the slurmd of the node and to everything that runs on it. */
  stopNode(name: string): Promise<void>;
  /** SIGKILL to the slurmd and slurmstepd processes of the node. Its jobs run on, and nobody reports their ends. */
  killNodeDaemons(name: string): Promise<void>;
  /** SIGKILL to everything that runs on the node but slurmd, which does not notice it. */
  killNodeJobs(name: string): Promise<void>;
  startNode(name: string): Promise<void>;
  stopMunge(): Promise<void>;
  startMunge(): Promise<void>;
}

/** The clusters that this process has not stopped. */
const running = new Set<() => void>();
process.on('exit', () => {
  for (const killEverything of running) killEverything();
});

/**
 * Starts a private Slurm that touches nothing outside its folder: munged, slurmctld, and one slurmd a node (`n1`, `n2`…
 * of 16 cores each). The caller must stop it. If this process dies first, the daemons are killed.
 */
export async function startCluster(options: ClusterOptions = {}): Promise<SlurmCluster> {
  const { nodes: nodeCount = 2, minJobAge = 300, extraConf = [], cgroupConf = [], database = false } = options;
  const folder = await mkdtemp(join(tmpdir(), 'bursar-slurm-'));
  const at = (name: string) => join(folder, name);
  const nodes = Array.from({ length: nodeCount }, (_, index) => `n${index + 1}`);
  const conf = at('slurm.conf');
  const ports = await freePorts(nodeCount + 2);
  await chmod(folder, 0o755);
  for (const name of ['sock', 'munge', 'state', 'spool', 'log']) await mkdir(at(name), { mode: 0o755 });
  await chmod(at('munge'), 0o700);
  await writeFile(at('munge/key'), randomBytes(128), { mode: 0o400 });
  await writeFile(conf, slurmConf({ folder, nodes, ports, minJobAge, database, extra: extraConf }));
  await writeFile(at('cgroup.conf'), cgroupConf.map((line) => `${line}\n`).join(''));
  await writeFile(at('slurmdbd.conf'), slurmdbdConf(folder, ports), { mode: 0o600 });

  const env = { SLURM_CONF: conf };
  const daemons = createDaemons(folder, at('log'), { ...env, MYSQL_UNIX_PORT: databaseSocketPath(folder) });
  const { start, end, run, until } = daemons;
  const startMunge = async () => {
    const files = [`--pid-file=${at('munge/pid')}`, `--log-file=${at('munge/log')}`, `--seed-file=${at('munge/seed')}`];
    start('munged', 'munged', ['-F', `--socket=${at('sock/munge')}`, `--key-file=${at('munge/key')}`, ...files]);
    await until('munged listens', () => existsSync(at('sock/munge')));
  };
  const startController = async () => {
    start('slurmctld', 'slurmctld', ['-D', '-i', '-f', conf]);
    await until('slurmctld answers', () => attempt(() => run('scontrol', 'ping').includes('is UP')));
  };
  const isIdle = (name: string) => attempt(() => /^(idle|mix|alloc)/.test(run('sinfo', '-h', '-n', name, '-o', '%T')));
  const startNodes = async (names: readonly string[]) => {
    for (const name of names) start(name, 'slurmd', ['-D', '-N', name, '-f', conf]);
    for (const name of names) await until(`${name} is idle`, () => isIdle(name));
  };
  const killEverything = () => {
    daemons.killAll();
    killAll(findClusterProcesses(folder));
    if (cgroupConf.length > 0) for (const name of nodes) removeCgroups(name);
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  };
  running.add(killEverything);

  const cluster: SlurmCluster = {
    env,
    folder,
    controllerPort: ports[0] ?? 0,
    run,
    startController,
    startNode: (name) => startNodes([name]),
    stopController: () => end('slurmctld', 'SIGTERM', { mustFinish: true }),
    killController: () => end('slurmctld', 'SIGKILL'),
    async wipeController() {
      await end('slurmctld', 'SIGKILL');
      await rm(at('state'), { recursive: true });
      await mkdir(at('state'));
      await startController();
    },
    pauseController: () => daemons.signal('slurmctld', 'SIGSTOP'),
    resumeController: () => daemons.signal('slurmctld', 'SIGCONT'),
    startMunge,
    stopMunge: () => end('munged', 'SIGTERM'),
    async stopNode(name) {
      await end(name, 'SIGKILL');
      await killNodeProcesses(folder, name);
    },
    killNodeJobs: (name) => killNodeProcesses(folder, name),
    async killNodeDaemons(name) {
      killAll(findStepDaemons(findNodeProcesses(folder, name)));
      await end(name, 'SIGKILL');
    },
    async stop() {
      running.delete(killEverything);
      await Promise.all(nodes.map((name) => end(name, 'SIGTERM')));
      for (const name of ['slurmctld', 'slurmdbd', 'munged']) await end(name, 'SIGTERM');
      // Its data is not needed any more.
      await end('mariadbd', 'SIGKILL');
      killEverything();
    },
  };
  try {
    await startMunge();
    if (database) await startDatabase(folder, daemons);
    await startController();
    await startNodes(nodes);
  } catch (error) {
    await cluster.stop();
    throw error;
  }
  return cluster;
}
