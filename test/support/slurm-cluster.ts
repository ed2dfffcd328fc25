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
import { findClusterProcesses, findNodeProcesses, removeCgroups } from './slurm-processes.ts';

export interface ClusterOptions {
  nodes?: number;
  /** Seconds that finished jobs stay in the queue. */
  minJobAge?: number;
  /** Further lines of slurm.conf; a setting that is here replaces the usual one. */
  extraConf?: string[];
  /** cgroup.conf; without it there are no cgroups. */
  cgroupConf?: string[];
  /** Whether there is a slurmdbd, with a MariaDB of its own. */
  database?: boolean;
}

export interface SlurmCluster {
  /** What a Slurm command needs to find this cluster. */
  env: { SLURM_CONF: string };
  /** Everything of the cluster is below it; what a test puts here goes with it. */
  folder: string;
  /** Runs a command as an administrator of the cluster, and gives what it prints. */
  run(program: string, ...args: string[]): string;
  stop(): Promise<void>;
  stopController(): Promise<void>;
  startController(): Promise<void>;
  /** From one moment to the next, with nothing saved. */
  killController(): Promise<void>;
  /** Killed, and started again with nothing of what it knew. */
  wipeController(): Promise<void>;
  pauseController(): void;
  resumeController(): void;
  /** The node and all that runs on it are gone from one moment to the next. */
  stopNode(name: string): Promise<void>;
  startNode(name: string): Promise<void>;
  stopMunge(): Promise<void>;
  startMunge(): Promise<void>;
}

/**
 * A real Slurm of one's own, which touches nothing outside its folder: munged, slurmctld, and as many slurmd as nodes
 * (`n1`, `n2`… of 16 cores each). Stop it, whatever happens; a process that dies without takes the daemons with it.
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
    const own = [`--pid-file=${at('munge/pid')}`, `--log-file=${at('munge/log')}`, `--seed-file=${at('munge/seed')}`];
    start('munged', 'munged', ['-F', `--socket=${at('sock/munge')}`, `--key-file=${at('munge/key')}`, ...own]);
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
  process.on('exit', killEverything);

  const cluster: SlurmCluster = {
    env,
    folder,
    run,
    startController,
    startNode: (name) => startNodes([name]),
    stopController: () => end('slurmctld', 'SIGTERM'),
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
      killAll(findNodeProcesses(folder, name));
    },
    async stop() {
      process.off('exit', killEverything);
      await Promise.all(nodes.map((name) => end(name, 'SIGTERM')));
      for (const name of ['slurmctld', 'slurmdbd', 'munged']) await end(name, 'SIGTERM');
      // Nobody will read what is in it.
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
