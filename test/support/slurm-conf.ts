import { hostname, userInfo } from 'node:os';

export interface SlurmConf {
  /** Contains all files of the cluster. */
  folder: string;
  nodes: readonly string[];
  /** The ports of the controller, of slurmdbd and of each node. */
  ports: readonly number[];
  /** Seconds that squeue lists finished jobs. */
  minJobAge: number;
  /** Whether the cluster has a slurmdbd. */
  database: boolean;
  /** Further lines. A setting replaces the default one. */
  extra: readonly string[];
}

export function slurmConf({ folder, nodes, ports, minJobAge, database, extra }: SlurmConf): string {
  const user = userInfo().username;
  const [controllerPort, databasePort, ...nodePorts] = ports;
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
    // Commands of Slurm give up after this time: shorter than the limit of Bursar, and long enough for a slow machine.
    'MessageTimeout=25',
    // Slurm kills a job this long after its SIGTERM. Before that, its wrapper must have recorded the end, also on a busy machine.
    'KillWait=120',
    `MinJobAge=${minJobAge}`,
    `StateSaveLocation=${folder}/state`,
    `SlurmdSpoolDir=${folder}/spool/%n`,
    `SlurmctldPidFile=${folder}/slurmctld.pid`,
    `SlurmdPidFile=${folder}/slurmd-%n.pid`,
    `SlurmctldLogFile=${folder}/log/slurmctld.log`,
    `SlurmdLogFile=${folder}/log/slurmd-%n.log`,
    ...(database ? databaseLines(folder, databasePort) : ['AccountingStorageType=accounting_storage/none']),
    'JobCompType=jobcomp/filetxt',
    `JobCompLoc=${folder}/jobcomp`,
    ...nodes.map((name, index) => {
      const address = `NodeHostname=${hostname()} NodeAddr=127.0.0.1 Port=${nodePorts[index]}`;
      return `NodeName=${name} ${address} CPUs=16 RealMemory=2000 State=UNKNOWN`;
    }),
    'PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP',
  ];
  const keyOf = (line: string) => line.split(/[= ]/, 1)[0];
  const replaced = new Set(extra.map(keyOf).filter((key) => key !== 'PartitionName' && key !== 'NodeName'));
  return [...lines.filter((line) => !replaced.has(keyOf(line))), ...extra, ''].join('\n');
}

function databaseLines(folder: string, port: number | undefined): string[] {
  return [
    'AccountingStorageType=accounting_storage/slurmdbd',
    'AccountingStorageHost=127.0.0.1',
    `AccountingStoragePort=${port}`,
    // Despite its name, this is the path of the munge socket.
    `AccountingStoragePass=${folder}/sock/munge`,
  ];
}

export function slurmdbdConf(folder: string, [, port]: readonly number[]): string {
  const lines = [
    'AuthType=auth/munge',
    `AuthInfo=socket=${folder}/sock/munge`,
    `DbdHost=${hostname()}`,
    'DbdAddr=127.0.0.1',
    `DbdPort=${port}`,
    `SlurmUser=${userInfo().username}`,
    'StorageType=accounting_storage/mysql',
    'StorageHost=localhost',
    'StorageUser=root',
    'StorageLoc=slurm_acct_db',
    `PidFile=${folder}/slurmdbd.pid`,
    `LogFile=${folder}/log/slurmdbd.log`,
  ];
  return `${lines.join('\n')}\n`;
}
