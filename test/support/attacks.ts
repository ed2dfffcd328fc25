import { basename, dirname } from 'node:path';
import { quoteForBash } from '../../src/shell/quote.ts';
import { copyDescriptor, openByHandle, readPackets, receiveFolder, trace } from './attack-programs.ts';

/** The targets of the attacks. All exist on the host where the job runs: `attack-targets.ts` creates them. */
export interface AttackTargets {
  /** The working directory of another job, with the file `secret`. */
  neighbour: string;
  /** The stdout of the other job. */
  neighbourOutput: string;
  /** The home of the account, with `.bashrc` and `.ssh/authorized_keys`. */
  home: string;
  /** Bursar's data folder, with the real database `bursar.db`. */
  data: string;
  /** The configuration file, with a password. The stand-in of Bursar replaces it again and again, as an editor does. */
  configFile: string;
  /** A file in /etc that only the account of the job can read. It exists if the tests run as root. */
  privateFile: string;
  /** The folder that holds the record of the attacking job's end. */
  ownRecord: string;
  /** A process that stands for Bursar: it has a secret in its environment. */
  pid: number;
  /** A socket of that process in the file system, an abstract one, and a TCP port on loopback. */
  socket: string;
  abstractSocket: string;
  /** Sockets of another account that hands over the root folder of the host: the abstract one begins with @. */
  folderSocket: string;
  abstractFolderSocket: string;
  port: number;
  /** A file in /dev/shm and a System V shared memory segment of another job. */
  sharedMemoryFile: string;
  sharedMemoryKey: string;
  /** A name that no other process has, for processes and files that the job leaves behind. */
  mark: string;
  /** The path of Node, which the job can see. */
  node: string;
  /** A file with the pid of the supervisor, which appears after the start of the job. Undefined: the parent of the job. */
  supervisorFile?: string;
}

export interface Attack {
  name: string;
  /** A shell command that succeeds if the attack does. It does no harm: what it changes it changes back. */
  command(targets: AttackTargets): string;
  /** Whether it succeeds although the job is isolated. Default: false. */
  whenIsolated?: boolean | 'with the network' | 'with user namespaces';
  /** Whether it succeeds if the job is not isolated. Default: true. `as root`: only if the job then runs as root. */
  whenNot?: boolean | 'as root';
}

const read = (path: string) => `cat ${quoteForBash(path)}`;
const append = (path: string) => `: >> ${quoteForBash(path)}`;
const create = (folder: string, name: string) =>
  `touch ${quoteForBash(`${folder}/${name}`)} && rm ${quoteForBash(`${folder}/${name}`)}`;
const connect = (node: string, address: string) =>
  `${quoteForBash(node)} -e ${quoteForBash(`require('net').connect(${address}).on('connect', () => process.exit(0)).on('error', () => process.exit(1))`)}`;

const reading: Attack[] = [
  {
    name: 'list the other workspaces',
    command: ({ neighbour }) =>
      `ls ${quoteForBash(dirname(dirname(neighbour)))} | grep -q ${basename(dirname(neighbour))}`,
  },
  {
    name: 'read the configuration after it was replaced',
    command: ({ configFile }) => `for i in {1..10}; do ${read(configFile)} && exit 0; sleep 0.1; done; exit 1`,
  },
  {
    name: 'read a private file of the account in /etc',
    command: (t) => read(t.privateFile),
    whenNot: 'as root',
  },
  { name: 'read the environment of its supervisor', command: () => 'grep -q . /proc/$SUPERVISOR/environ' },
  { name: 'open files by their numbers', command: () => openByHandle, whenNot: 'as root' },
  { name: 'read a file of another job', command: (t) => read(`${t.neighbour}/secret`) },
  { name: 'list the files of another job', command: (t) => `ls ${quoteForBash(t.neighbour)} | grep .` },
  { name: 'read the output of another job', command: (t) => read(t.neighbourOutput) },
  { name: 'read the database', command: (t) => read(`${t.data}/bursar.db`) },
  { name: 'read the configuration of Bursar', command: (t) => read(t.configFile) },
  { name: 'read the keys of the account', command: (t) => read(`${t.home}/.ssh/authorized_keys`) },
  { name: 'read its own end record', command: (t) => `ls ${quoteForBash(t.ownRecord)} | grep .` },
  { name: 'read the environment of Bursar', command: (t) => `grep -q BURSAR_ATTACK_SECRET /proc/${t.pid}/environ` },
  { name: 'see the processes of others', command: (t) => `grep -q . /proc/${t.pid}/cmdline` },
  { name: 'read files through the root of another process', command: (t) => `ls /proc/${t.pid}/root/ | grep .` },
  { name: 'read the open files of another process', command: (t) => `ls /proc/${t.pid}/fd | grep .` },
  {
    name: 'leave through a folder that is open outside',
    command: () => 'for folder in /proc/self/fd/*; do [ ! -d "$folder" ] || exit 0; done; exit 1',
    whenNot: false,
  },
  { name: 'read the password hashes', command: () => read('/etc/shadow'), whenNot: 'as root' },
  {
    name: 'read a secret through a link in its own folder',
    command: (t) => `ln -s ${quoteForBash(`${t.neighbour}/secret`)} link && cat link`,
  },
  {
    name: 'uncover hidden files in a user namespace of its own',
    command: () => "unshare -Urm sh -c 'umount -R -l /etc; umount -R -l /proc; cat /etc/shadow'",
    whenNot: 'as root',
  },
];

const writing: Attack[] = [
  { name: 'change its own output', command: () => append('../stdout') },
  { name: 'move its own folder', command: () => 'd=$PWD; mv "$d" "$d.moved" && mv "$d.moved" "$d"' },
  {
    name: 'give a file to another account',
    command: () => 'touch given; chown 12345 given; status=$?; rm -f given; exit $status',
    whenNot: 'as root',
  },
  { name: 'write into the folder of another job', command: (t) => create(t.neighbour, t.mark) },
  { name: 'change a file of another job', command: (t) => append(`${t.neighbour}/secret`) },
  { name: 'change the output of another job', command: (t) => append(t.neighbourOutput) },
  { name: 'change the start-up file of the account', command: (t) => append(`${t.home}/.bashrc`) },
  { name: 'add a key to the account', command: (t) => append(`${t.home}/.ssh/authorized_keys`) },
  { name: 'write into the data folder', command: (t) => create(t.data, t.mark) },
  { name: 'write its own end record', command: (t) => create(t.ownRecord, t.mark) },
  {
    name: "insert an administrator's token into the database",
    command: (t) =>
      `${quoteForBash(t.node)} -e ${quoteForBash(
        `const { DatabaseSync } = require('node:sqlite');
         const db = new DatabaseSync(${JSON.stringify(`${t.data}/bursar.db`)});
         db.exec("INSERT INTO tokens (token) VALUES ('${t.mark}')");`,
      )} 2>/dev/null`,
  },
  { name: 'replace a program of the system', command: (t) => create('/usr/local/bin', t.mark), whenNot: 'as root' },
  { name: 'change the configuration of the system', command: (t) => create('/etc', t.mark), whenNot: 'as root' },
  {
    name: 'change a parameter of the kernel',
    command: () => 'f=/proc/sys/kernel/core_pattern; p=$(cat $f) && echo "$p" > $f',
    whenNot: 'as root',
  },
  {
    name: 'create a control group',
    command: (t) => `mkdir /sys/fs/cgroup/${t.mark} && rmdir /sys/fs/cgroup/${t.mark}`,
    whenNot: 'as root',
  },
  {
    name: 'make a hard link to the database',
    command: (t) => `ln ${quoteForBash(`${t.data}/bursar.db`)} database && rm database`,
  },
];

const processes: Attack[] = [
  { name: 'signal Bursar', command: (t) => `kill -CONT ${t.pid}` },
  { name: 'signal its supervisor', command: () => 'kill -CONT $SUPERVISOR' },
  // The kernel may forbid debugging to ordinary accounts.
  { name: 'attach to Bursar as a debugger', command: (t) => trace(String(t.pid)), whenNot: 'as root' },
  { name: 'attach to its supervisor as a debugger', command: () => trace('$SUPERVISOR'), whenNot: 'as root' },
  { name: 'take an open file of Bursar', command: (t) => copyDescriptor(String(t.pid)), whenNot: 'as root' },
  { name: 'change the memory of its supervisor', command: () => '(exec 3<>/proc/$SUPERVISOR/mem)', whenNot: 'as root' },
  {
    name: 'change the priority of Bursar',
    command: ({ pid }) => `n=$(ps -o ni= -p ${pid}) && renice -n $n -p ${pid}`,
  },
  {
    name: 'change the limits of Bursar',
    command: ({ pid }) =>
      `n=$(prlimit -p ${pid} --nofile -o SOFT --noheadings --raw) && prlimit -p ${pid} --nofile=$n:`,
  },
  {
    name: 'change the processors of Bursar',
    command: ({ pid }) => `list=$(taskset -cp ${pid}) && taskset -cp "\${list##*: }" ${pid}`,
  },
  { name: 'change its root folder', command: () => 'chroot / true', whenNot: 'as root' },
  { name: 'attach to the memory of Bursar', command: (t) => `(exec 3<>/proc/${t.pid}/mem)` },
  { name: 'enter the namespaces of Bursar', command: (t) => `nsenter -t ${t.pid} -m true`, whenNot: 'as root' },
  { name: 'gain privileges by a setuid program', command: () => 'grep -q "NoNewPrivs:\\s*0" /proc/self/status' },
  { name: 'keep a capability', command: () => '! grep -q "CapEff:\\s*0*$" /proc/self/status', whenNot: 'as root' },
  {
    name: 'mount a file system',
    command: () => 'mkdir -p mnt && mount -t tmpfs none mnt && umount mnt',
    whenNot: 'as root',
  },
  {
    name: 'make the system writable',
    command: (t) => `mount -o remount,bind,rw /usr && ${create('/usr', t.mark)}`,
    // There it is writable anyway, and no mount point.
    whenNot: false,
  },
  { name: 'create a device', command: () => 'mknod disk b 7 0 && rm disk', whenNot: 'as root' },
  { name: 'change the host name', command: () => 'hostname "$(hostname)"', whenNot: 'as root' },
  { name: 'type into a terminal', command: () => '(exec 3<>/dev/tty)', whenNot: false },
  {
    name: 'leave a process behind that has hidden itself',
    // A daemon: neither its group nor its session, its environment or its parent leads to the job.
    command: (t) =>
      `(env -i setsid bash -c '> hidden; exec -a ${t.mark} sleep 300' > /dev/null 2>&1 < /dev/null &); until [ -e hidden ]; do sleep 0.1; done`,
    whenIsolated: true,
  },
];

const sockets: Attack[] = [
  { name: 'connect to a socket in the file system', command: (t) => connect(t.node, JSON.stringify(t.socket)) },
  {
    name: 'connect to an abstract socket',
    command: (t) => connect(t.node, `'\\0' + ${JSON.stringify(t.abstractSocket)}`),
    whenIsolated: 'with the network',
  },
  {
    name: 'receive a folder through a socket in the file system',
    command: (t) => receiveFolder(t.folderSocket, `${t.neighbour}/secret`),
  },
  {
    name: 'receive a folder through an abstract socket',
    command: (t) => receiveFolder(t.abstractFolderSocket, `${t.neighbour}/secret`),
    whenIsolated: 'with the network',
  },
  { name: 'read all packets of the network', command: () => readPackets, whenNot: 'as root' },
  {
    name: 'open its shared memory to other accounts',
    // `findDamage` tells whether that worked: the job may open what nobody else can see.
    command: () => 'chmod 1777 /dev/shm; sleep 0.5; false',
    whenNot: false,
  },
  {
    name: 'connect to a port on loopback',
    command: (t) => connect(t.node, `${t.port}, '127.0.0.1'`),
    whenIsolated: 'with the network',
  },
  { name: 'read the shared memory of another job', command: (t) => read(t.sharedMemoryFile) },
  { name: 'see the System V shared memory of another job', command: (t) => `ipcs -m | grep -q ${t.sharedMemoryKey}` },
];

/** Starts a command many times at once, which writes a line to descriptor 3 when it runs. Succeeds if all run. */
const startMany = (count: number, command: string) =>
  `exec 3>> started; for i in {1..${count}}; do ${command} & done
   until n=$(wc -l < started); [ $n -ge $(jobs -rp | wc -l) ]; do sleep 0.1; done
   rm started; kill $(jobs -rp); [ $n = ${count} ]`;

const exhausting: Attack[] = [
  {
    name: 'start hundreds of processes',
    command: (t) => startMany(200, `(echo >&3; exec -a ${t.mark} sleep 300)`),
    whenIsolated: true,
  },
  {
    name: 'occupy user namespaces of the account',
    command: () => startMany(20, "unshare -U sh -c 'echo >&3; exec sleep 300'"),
    whenIsolated: 'with user namespaces',
  },
  {
    name: 'write where its use of space is not counted',
    command: (t) =>
      ['/', '/dev', '/var', '/run', '/usr', '/sys'].map((folder) => `{ ${create(folder, t.mark)}; }`).join(' || '),
    whenNot: 'as root',
  },
  {
    name: 'use /tmp without being charged for it',
    command: (t) =>
      `echo > /tmp/${t.mark} && { found=$(find "$TMPDIR" -name ${t.mark}); rm /tmp/${t.mark}; [ -z "$found" ]; }`,
  },
];

export const attacks: readonly Attack[] = [...reading, ...writing, ...processes, ...sockets, ...exhausting];

/**
 * A shell script that tries all attacks. It prints a line for each: its number, and whether it succeeded. No attack has a time
 * limit, because a busy machine may need long for it: the one of the job ends an attack that hangs.
 */
export function attackScript(targets: AttackTargets): string {
  const lines = attacks.map(({ command }, index) => {
    const attempt = `bash -c ${quoteForBash(command(targets))} > /dev/null 2>&1 < /dev/null`;
    return `${attempt} && echo "${index} succeeded" || echo "${index} failed"`;
  });
  const { supervisorFile } = targets;
  const findSupervisor =
    supervisorFile === undefined
      ? // Inside of a sandbox the parent is bubblewrap.
        'tr "\\0" " " < /proc/$PPID/cmdline | grep -q slurm && export SUPERVISOR=$PPID'
      : `until [ -s ${quoteForBash(supervisorFile)} ]; do sleep 0.05; done; export SUPERVISOR=$(< ${quoteForBash(supervisorFile)})`;
  return `${findSupervisor}\n${lines.join('\n')}\n`;
}

/** The names of the attacks that succeeded. Throws if one was not tried. */
export function parseAttackOutput(stdout: string): string[] {
  const results = new Map(
    [...stdout.matchAll(/^(\d+) (succeeded|failed)$/gm)].map(([, index, result]) => [Number(index), result]),
  );
  return attacks.flatMap(({ name }, index) => {
    const result = results.get(index);
    if (result === undefined) throw new Error(`not tried: ${name}`);
    return result === 'succeeded' ? name : [];
  });
}

/** The names of the attacks that should succeed. */
export function expectedSuccesses(job: {
  isIsolated: boolean;
  hasNetwork: boolean;
  isRoot: boolean;
  /** Whether an isolated job can create user namespaces. Default: true. */
  hasUserNamespaces?: boolean;
}): string[] {
  const succeeds = ({ whenIsolated = false, whenNot = true }: Attack) => {
    if (job.isIsolated) {
      if (whenIsolated === 'with the network') return job.hasNetwork;
      return whenIsolated === 'with user namespaces' ? (job.hasUserNamespaces ?? true) : whenIsolated;
    }
    return whenNot === 'as root' ? job.isRoot : whenNot;
  };
  return attacks.filter(succeeds).map(({ name }) => name);
}
