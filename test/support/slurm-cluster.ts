import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readlinkSync, rmdirSync, rmSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { hostname, tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export interface ClusterOptions {
  nodes?: number;
  /** Seconds that finished jobs stay in the queue. */
  minJobAge?: number;
  /** Further lines of slurm.conf; a setting that is here replaces the usual one. */
  extraConf?: string[];
  /** cgroup.conf; without it there are no cgroups. */
  cgroupConf?: string[];
}

export interface SlurmCluster {
  /** What a Slurm command needs to find this cluster. */
  env: { SLURM_CONF: string };
  /** Everything of the cluster is below it; what a test puts here goes with it. */
  folder: string;
  stop(): Promise<void>;
  stopController(): Promise<void>;
  startController(): Promise<void>;
  /** From one moment to the next, with nothing saved. */
  killController(): Promise<void>;
  pauseController(): void;
  resumeController(): void;
  /** The node and all that runs on it are gone from one moment to the next. */
  stopNode(name: string): Promise<void>;
  startNode(name: string): Promise<void>;
}

/**
 * A real Slurm of one's own, which touches nothing outside its folder: munged, slurmctld, and as many slurmd as nodes
 * (`n1`, `n2`… of 16 cores each). Stop it, whatever happens; a process that dies without takes the daemons with it.
 */
export async function startCluster(options: ClusterOptions = {}): Promise<SlurmCluster> {
  checkInstalled();
  const { nodes: nodeCount = 2, minJobAge = 300, extraConf = [], cgroupConf = [] } = options;
  const folder = await mkdtemp(join(tmpdir(), 'bursar-slurm-'));
  await chmod(folder, 0o755);
  for (const name of ['sock', 'munge', 'state', 'spool', 'log']) await mkdir(join(folder, name), { mode: 0o755 });
  await chmod(join(folder, 'munge'), 0o700);
  await writeFile(join(folder, 'munge', 'key'), randomBytes(128), { mode: 0o400 });
  const names = Array.from({ length: nodeCount }, (_, index) => `n${index + 1}`);
  const conf = join(folder, 'slurm.conf');
  await writeFile(conf, slurmConf(folder, names, await freePorts(nodeCount + 1), minJobAge, extraConf));
  await writeFile(join(folder, 'cgroup.conf'), cgroupConf.map((line) => `${line}\n`).join(''));

  const env = { SLURM_CONF: conf };
  const daemons = new Map<string, ChildProcess>();
  const start = (name: string, program: string, args: string[]) => {
    const log = openSync(join(folder, 'log', `${name}.out`), 'a');
    // Dies with the process that started it, even if that is killed.
    const argv = ['--pdeathsig', 'KILL', program, ...args];
    const child = spawn('setpriv', argv, { cwd: folder, env: { ...env, PATH: path }, stdio: ['ignore', log, log] });
    closeSync(log);
    daemons.set(name, child);
  };
  const end = async (name: string, signal: NodeJS.Signals) => {
    const child = daemons.get(name);
    daemons.delete(name);
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGCONT');
    child.kill(signal);
    const straggler = setTimeout(() => child.kill('SIGKILL'), 5_000);
    await ended;
    clearTimeout(straggler);
  };
  const run = (program: string, ...args: string[]) =>
    execFileSync(program, args, { env: { ...env, PATH: path }, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  const until = async (what: string, check: () => boolean) => {
    for (let waitedMs = 0; waitedMs < 20_000; waitedMs += 20) {
      if (check()) return;
      await sleep(20);
    }
    const logs = names.concat('slurmctld', 'munged').map((name) => join(folder, 'log', `${name}.out`));
    const texts = await Promise.all(logs.map((log) => readFile(log, 'utf8').catch(() => '')));
    throw new Error(`this never happened: ${what}\n${texts.join('\n')}`);
  };
  const startController = async () => {
    start('slurmctld', 'slurmctld', ['-D', '-i', '-f', conf]);
    await until('slurmctld answers', () => attempt(() => run('scontrol', 'ping').includes('is UP')));
  };
  const isIdle = (name: string) => attempt(() => /^(idle|mix|alloc)/.test(run('sinfo', '-h', '-n', name, '-o', '%T')));
  const startNode = async (name: string) => {
    start(name, 'slurmd', ['-D', '-N', name, '-f', conf]);
    await until(`${name} is idle`, () => isIdle(name));
  };

  const cluster: SlurmCluster = {
    env,
    folder,
    startController,
    startNode,
    stopController: () => end('slurmctld', 'SIGTERM'),
    killController: () => end('slurmctld', 'SIGKILL'),
    pauseController: () => void daemons.get('slurmctld')?.kill('SIGSTOP'),
    resumeController: () => void daemons.get('slurmctld')?.kill('SIGCONT'),
    async stopNode(name) {
      await end(name, 'SIGKILL');
      killAll(stepsOf(folder, name));
    },
    async stop() {
      process.off('exit', killEverything);
      await Promise.all(names.map((name) => end(name, 'SIGTERM')));
      await end('slurmctld', 'SIGTERM');
      await end('munged', 'SIGTERM');
      killEverything();
    },
  };
  const killEverything = () => {
    killAll([...daemons.values()].flatMap(({ pid }) => pid ?? []));
    killAll(processesOf(folder));
    // Slurm leaves the group of a node behind.
    if (cgroupConf.length > 0) for (const name of names) removeGroups(name);
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  };
  process.on('exit', killEverything);
  endOnSignals();

  try {
    const at = (name: string) => join(folder, name);
    const seed = [`--pid-file=${at('munge/pid')}`, `--log-file=${at('munge/log')}`, `--seed-file=${at('munge/seed')}`];
    start('munged', 'munged', ['-F', `--socket=${at('sock/munge')}`, `--key-file=${at('munge/key')}`, ...seed]);
    await until('munged listens', () => existsSync(at('sock/munge')));
    await startController();
    for (const name of names) start(name, 'slurmd', ['-D', '-N', name, '-f', conf]);
    for (const name of names) await until(`${name} is idle`, () => isIdle(name));
  } catch (error) {
    await cluster.stop();
    throw error;
  }
  return cluster;
}

/** A run of tests that takes too long is told to end: it must leave no job behind either. */
function endOnSignals(): void {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    if (process.listenerCount(signal) === 0) process.once(signal, () => process.exit(1));
  }
}

const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

function slurmConf(folder: string, names: string[], ports: number[], minJobAge: number, extra: string[]): string {
  const user = userInfo().username;
  const [controllerPort, ...nodePorts] = ports;
  const lines = [
    'ClusterName=bursar',
    `SlurmctldHost=${hostname()}(127.0.0.1)`,
    `SlurmctldPort=${controllerPort}`,
    `SlurmUser=${user}`,
    `SlurmdUser=${user}`,
    'AuthType=auth/munge',
    `AuthInfo=socket=${folder}/sock/munge`,
    'CredType=cred/munge',
    'ProctrackType=proctrack/linuxproc',
    'TaskPlugin=task/none',
    'MpiDefault=none',
    'SelectType=select/cons_tres',
    'SelectTypeParameters=CR_Core',
    'SlurmdParameters=config_overrides',
    'SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_min_interval=0',
    'ReturnToService=2',
    'KillWait=2',
    `MinJobAge=${minJobAge}`,
    `StateSaveLocation=${folder}/state`,
    `SlurmdSpoolDir=${folder}/spool/%n`,
    `SlurmctldPidFile=${folder}/slurmctld.pid`,
    `SlurmdPidFile=${folder}/slurmd-%n.pid`,
    `SlurmctldLogFile=${folder}/log/slurmctld.log`,
    `SlurmdLogFile=${folder}/log/slurmd-%n.log`,
    'AccountingStorageType=accounting_storage/none',
    'JobCompType=jobcomp/filetxt',
    `JobCompLoc=${folder}/jobcomp`,
    ...names.map((name, index) => {
      const place = `NodeHostname=${hostname()} NodeAddr=127.0.0.1 Port=${nodePorts[index]}`;
      return `NodeName=${name} ${place} CPUs=16 RealMemory=2000 State=UNKNOWN`;
    }),
    'PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP',
  ];
  const keyOf = (line: string) => line.split(/[= ]/, 1)[0];
  const replaced = new Set(extra.map(keyOf).filter((key) => key !== 'PartitionName' && key !== 'NodeName'));
  return [...lines.filter((line) => !replaced.has(keyOf(line))), ...extra, ''].join('\n');
}

/** Below the range that the system takes ports from by itself, so that nobody is given one of them meanwhile. */
async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = randomInt(20_000, 32_000);
    if (await isFree(port)) ports.add(port);
  }
  return [...ports];
}

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/** Never skipped: a test run without Slurm has not shown what it is there to show. */
function checkInstalled(): void {
  const isThere = (program: string) => path.split(':').some((folder) => existsSync(join(folder, program)));
  const missing = ['munged', 'slurmctld', 'slurmd', 'sbatch'].filter((program) => !isThere(program));
  if (missing.length > 0) throw new Error(`${missing.join(', ')} missing: apt-get install slurm-wlm munge`);
}

/** Jobs and their keepers (slurmstepd), which outlive slurmd: they work in the folder, or know of it. */
function processesOf(folder: string): number[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
    const isInside = attempt(() => readlinkSync(`/proc/${name}/cwd`).startsWith(folder));
    const knows = attempt(() => readFileSync(`/proc/${name}/environ`, 'latin1').includes(`${folder}/`));
    return isInside || knows ? Number(name) : [];
  });
}

/** What runs on one node: Slurm tells every job where it is. The keepers first, who would report the deaths. */
function stepsOf(folder: string, node: string): number[] {
  const jobs = processesOf(folder).filter((pid) =>
    attempt(() => readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`SLURMD_NODENAME=${node}\0`)),
  );
  const parents = jobs.map((pid) => Number(readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ')[1]));
  const keepers = parents.filter((pid) =>
    attempt(() => readFileSync(`/proc/${pid}/comm`, 'latin1').startsWith('slurmstepd')),
  );
  return [...keepers, ...jobs];
}

function removeGroups(node: string): void {
  const root = '/sys/fs/cgroup';
  for (const group of [root, ...readdirSync(root).map((name) => join(root, name))]) {
    attempt(() => rmdirSync(join(group, `slurm_${node}`)) === undefined);
  }
}

function killAll(pids: number[]): void {
  for (const pid of pids) attempt(() => process.kill(pid, 'SIGKILL'));
}

function attempt(action: () => boolean): boolean {
  try {
    return action();
  } catch {
    return false;
  }
}
