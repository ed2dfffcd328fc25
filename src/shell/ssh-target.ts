import { createHash } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface SshTarget {
  /** A name from the operator's ssh_config, or of a host. */
  host: string;
  user?: string | undefined;
  port?: number | undefined;
  /** In place of the ssh_config of the user and of the host. */
  configFile?: string | undefined;
  /** In place of all other files of known host keys. */
  knownHostsFile?: string | undefined;
  /** In place of all other keys. */
  identityFile?: string | undefined;
  /**
   * For the socket of the shared connection: a folder of this user alone. Where its path is too long for a socket, a
   * folder for temporary files is taken in its place.
   */
  controlFolder: string;
  connectTimeoutSeconds: number;
}

/** Seconds that the connection stays open unused, and at most stays behind when Bursar is killed. */
const persistSeconds = 600;
/** A dead connection is noticed after three times this. */
const aliveIntervalSeconds = 10;

/** The ssh command line up to and including the host. Bursar's settings come first: in ssh the first one wins. */
export function sshArgv(target: SshTarget, ...extra: string[]): string[] {
  const { host, user, port, configFile, knownHostsFile, identityFile, connectTimeoutSeconds } = target;
  const options = {
    BatchMode: 'yes',
    StrictHostKeyChecking: 'yes',
    UpdateHostKeys: 'no',
    ControlMaster: 'auto',
    ControlPersist: `${persistSeconds}`,
    ControlPath: literal(socketOf(target)),
    ConnectTimeout: `${connectTimeoutSeconds}`,
    ServerAliveInterval: `${aliveIntervalSeconds}`,
    ServerAliveCountMax: '3',
    // Whatever an operator has set for sessions of their own.
    LogLevel: 'ERROR',
    RequestTTY: 'no',
    RemoteCommand: 'none',
    PermitLocalCommand: 'no',
    ClearAllForwardings: 'yes',
    ForwardAgent: 'no',
    ForwardX11: 'no',
    ...(knownHostsFile && { UserKnownHostsFile: literal(knownHostsFile), GlobalKnownHostsFile: '/dev/null' }),
    ...(identityFile && { IdentityFile: literal(identityFile), IdentitiesOnly: 'yes' }),
  };
  return [
    'ssh',
    ...(configFile ? ['-F', configFile] : []),
    ...Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`]),
    ...(user ? ['-l', user] : []),
    ...(port ? ['-p', String(port)] : []),
    ...extra,
    '--',
    host,
  ];
}

/** The socket's name stands for all that makes a connection what it is: no other target ever uses it. */
export function socketOf({ controlFolder, connectTimeoutSeconds: _, ...identity }: SshTarget): string {
  const name = digest(JSON.stringify(Object.entries(identity).sort()));
  // One that is the same after a crash: the connection is found again, and nothing piles up.
  const short = `bursar-${process.getuid?.() ?? 'ssh'}-${digest(controlFolder)}`;
  const folders = [controlFolder, join(tmpdir(), short), join('/tmp', short)];
  return folders.map((folder) => join(folder, name)).find(isShort) ?? join('/tmp', short, name);
}

const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 12);

/** While it makes the socket, ssh adds 17 characters; macOS takes 104 with the final NUL, Linux 108. */
const isShort = (path: string) => Buffer.byteLength(path) + 17 <= 103;

/** A path in an option of ssh, which splits words at spaces and expands `%`. */
const literal = (path: string) => `"${path.replaceAll('%', '%%')}"`;
