import { isInside } from '../../domain/systems/isolation.ts';

/** An existing path that a job must not see, although it is inside a path that the job sees. */
export interface HiddenPath {
  path: string;
  kind: 'file' | 'folder';
}

/** The account that jobs run as. */
export interface Account {
  uid: number;
  gid: number;
  name: string;
}

export interface SandboxOptions {
  /** The job's working directory: it can be written, and has the same path inside. */
  directory: string;
  /** The job's folder for temporary files: it can be written at its own path, and is also `/tmp` and `/var/tmp`. */
  temporaryFolder: string;
  /** The folder that the job starts in. */
  startDirectory: string;
  /** Further paths that the job can read, such as `/opt`. Paths that do not exist are ignored. */
  readOnly: readonly string[];
  /** Bubblewrap cannot hide a path that does not exist in a read-only folder, and fails: see `hides`. */
  hidden: readonly HiddenPath[];
  /** False: the job has a network of its own, with nothing but a loopback interface. */
  network: boolean;
  /** Maximum size of `/dev/shm`, whose contents occupy memory. Default: half of the memory of the host. */
  sharedMemoryBytes?: number;
  /** True: the job cannot create user namespaces. Bubblewrap must then run as an ordinary user. Default: false. */
  disableUserNamespaces?: boolean;
  /** A descriptor to which bubblewrap reports the start and the exit code as JSON. The job does not have it. */
  statusDescriptor?: number;
  /** The account that the job runs as. Bubblewrap must then run as root. Default: the one that runs bubblewrap. */
  account?: { uid: number; gid: number };
}

/** Arguments of `bwrap` that belong together. */
export interface ArgumentGroup {
  args: string[];
  /** The path that these arguments hide. Leave them out if it does not exist on the host of the job, or is a link. */
  hides?: string;
}

/** The arguments of `bwrap` in three parts, in this order. */
export interface SandboxParts {
  /** Further mounts can follow. */
  mounts: ArgumentGroup[];
  /** Makes the folders read-only that bubblewrap has created in memory for the mounts. */
  remounts: ArgumentGroup[];
  /** The command of the job follows. */
  start: string[];
}

/** The arguments of `bwrap` that isolate a job on this host, up to the command. All paths of `hidden` must exist. */
export function sandboxArguments(options: SandboxOptions): string[] {
  const { mounts, remounts, start } = sandboxParts(options);
  return [...[...mounts, ...remounts].flatMap(({ args }) => args), ...start];
}

/**
 * The same arguments in parts. Pure: it does not look at the host, so that it can build the command line for another one.
 *
 * Inside, the job sees the programs and the configuration of the system read-only, its own folders, new `/proc` and `/dev`,
 * and nothing else: no home folders, no other workspaces, no sockets in `/run`. It is in process, IPC and mount namespaces
 * of its own, has no capabilities and cannot gain privileges. Once `bwrap` has started the job, all its processes end with
 * the process that started `bwrap`. The host name, the clock and, unless `network` is false, the network are those of the host.
 */
export function sandboxParts(options: SandboxOptions): SandboxParts {
  const { directory, temporaryFolder, startDirectory, network, sharedMemoryBytes, statusDescriptor, account } = options;
  const visible = [...systemPaths, ...options.readOnly];
  // A path that is not inside a visible one cannot be seen anyway. Inside a hidden folder, bubblewrap would create it. The
  // system itself cannot be hidden.
  const hidden = options.hidden.filter(({ path }) => {
    const others = options.hidden.filter((other) => other.path !== path);
    return !systemPaths.includes(path) && isVisible(path, { readOnly: options.readOnly, hidden: others });
  });
  const paths: Mount[] = [
    ...visible.map((path) => ({ path, args: ['--ro-bind-try', path, path] })),
    // After the visible paths: of two mounts of one path, the later one counts.
    ...hidden.map(({ path, kind }) => ({
      path,
      hides: path,
      args: kind === 'folder' ? ['--tmpfs', path] : ['--ro-bind', '/dev/null', path],
    })),
    ...['/tmp', '/var/tmp', temporaryFolder].map((path) => ({ path, args: ['--bind', temporaryFolder, path] })),
    { path: directory, args: ['--bind', directory, directory] },
  ];
  const covered = foldersInTmp(paths.map(({ path }) => path));
  const mounts = [...paths, ...covered.map((path) => ({ path, args: ['--tmpfs', path] }))];
  const hiddenFolders = hidden.filter(({ kind }) => kind === 'folder');
  // The account is not the one that creates it. Every bubblewrap that knows --size knows --perms.
  const sharedMemorySize =
    sharedMemoryBytes === undefined ? [] : ['--perms', '1777', '--size', String(sharedMemoryBytes)];
  return {
    mounts: [
      {
        args: [
          ...words('--unshare-pid --unshare-ipc --die-with-parent --cap-drop ALL'),
          ...(network ? [] : ['--unshare-net']),
          ...(options.disableUserNamespaces ? ['--unshare-user', '--disable-userns'] : []),
          ...(account === undefined ? [] : words('--cap-add CAP_SETUID --cap-add CAP_SETGID')),
          ...(statusDescriptor === undefined ? [] : ['--json-status-fd', String(statusDescriptor)]),
          ...words('--proc /proc'),
          ...writableProcPaths.flatMap((path) => ['--ro-bind-try', path, path]),
          ...words('--dev /dev'),
          ...sharedMemorySize,
          ...words('--tmpfs /dev/shm'),
          ...acceleratorDevices.flatMap((path) => ['--dev-bind-try', path, path]),
        ],
      },
      ...mounts
        .toSorted((a, b) => depthOf(a.path) - depthOf(b.path))
        .map(({ path, args, ...mount }) => ({ ...mount, args: [...parentArguments(path), ...args] })),
    ],
    // Nothing may be written there, beyond all limits.
    remounts: [
      ...['/', '/dev', ...covered].map((path) => ({ args: ['--remount-ro', path] })),
      ...hiddenFolders.map(({ path }) => ({ hides: path, args: ['--remount-ro', path] })),
    ],
    // Without capabilities, root cannot enter a folder of the other account.
    start:
      account === undefined ? ['--chdir', startDirectory, '--'] : ['--', ...accountCommand(account, startDirectory)],
  };
}

/** The command that runs the rest of the command line, a program with its full path, as another account in a folder. */
function accountCommand({ uid, gid }: { uid: number; gid: number }, directory: string): string[] {
  const switchAccount = ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', '--inh-caps=-all', '--'];
  // `env --chdir` would mistake the name of a program with = for a variable.
  return [...switchAccount, '/bin/sh', '-c', 'cd -- "$0" && unset OLDPWD && exec "$@"', directory];
}

interface Mount extends ArgumentGroup {
  path: string;
}

/** A folder must be mounted before the folders inside it. */
const depthOf = (path: string) => path.split('/').filter(Boolean).length;

/**
 * The folders directly in /tmp that contain mounted paths. Bubblewrap must create the mount points in memory, not in /tmp: the
 * job can write there, and could put links in their place before bubblewrap starts the next task.
 */
function foldersInTmp(paths: readonly string[]): string[] {
  const folders = paths.flatMap((path) => /^(?:\/var)?\/tmp\/[^/]+(?=\/)/.exec(path)?.[0] ?? []);
  return [...new Set(folders)].filter((folder) => !paths.includes(folder));
}

/** Creates the folders that contain a path, with access for every account: bubblewrap itself may create them with less. */
function parentArguments(path: string): string[] {
  const names = path.split('/').filter(Boolean);
  return names.slice(0, -1).flatMap((_, index) => ['--dir', `/${names.slice(0, index + 1).join('/')}`]);
}

/** True if the job can see this path, apart from its own folders. */
export function isVisible(path: string, options: Pick<SandboxOptions, 'readOnly' | 'hidden'>): boolean {
  const depths = (folders: readonly string[]) =>
    folders.filter((folder) => isInside(path, folder)).map((folder) => depthOf(folder));
  const shown = Math.max(-1, ...depths([...systemPaths, ...options.readOnly]));
  return shown > Math.max(-1, ...depths(options.hidden.map((hidden) => hidden.path)));
}

const words = (text: string) => text.split(' ');

/** The system: programs, libraries, configuration. Symbolic links, such as `/bin`, become folders. */
export const systemPaths: readonly string[] = [
  ...words('/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc'),
  // Name resolution, where /etc/resolv.conf is a link to one of these.
  ...words('/run/systemd/resolve/stub-resolv.conf /run/systemd/resolve/resolv.conf /run/resolvconf/resolv.conf'),
  ...words('/run/NetworkManager/resolv.conf /mnt/wsl/resolv.conf'),
  // Account names, where they come from a directory service: the cache of sssd, without its sockets.
  '/var/lib/sss/mc',
  // The topology of the machine, for MPI and OpenMP.
  ...words('/sys/block /sys/bus /sys/class /sys/dev /sys/devices /sys/fs/cgroup'),
];

/** Files of the system that only root can read. A job that runs as root must not see them either. */
export const secretPaths: readonly string[] = [
  ...words('/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d /etc/security/opasswd'),
  ...words('/etc/munge /etc/ssh /etc/ssl/private /etc/pki/tls/private /etc/krb5.keytab'),
  ...words('/etc/slurm/slurmdbd.conf /etc/slurm/jwt_hs256.key'),
];

/** The expression of `find` for files and folders that only their owner or group can read, in words without quotes. */
export const isPrivateExpression = '( -type d ! -perm -005 -o ! -type d ! -type l ! -perm -004 )';

/** Parts of /proc through which root changes the kernel, even without capabilities. */
const writableProcPaths = ['acpi', 'bus', 'fs', 'irq', 'scsi', 'sys', 'sysrq-trigger'].map((name) => `/proc/${name}`);

/** Graphics processors and InfiniBand, with the permissions that they have on the host. */
const acceleratorDevices = [
  ...words('/dev/dri /dev/kfd /dev/infiniband /dev/nvidia-caps /dev/nvidiactl /dev/nvidia-modeset'),
  ...words('/dev/nvidia-uvm /dev/nvidia-uvm-tools'),
  ...Array.from({ length: 16 }, (_, index) => `/dev/nvidia${index}`),
];
