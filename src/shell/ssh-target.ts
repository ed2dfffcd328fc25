import { createHash } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface SshTarget {
  /** A host name, or an alias from the operator's ssh_config. */
  host: string;
  user?: string | undefined;
  port?: number | undefined;
  /** Replaces the user's and the system's ssh_config. */
  configFile?: string | undefined;
  /** Replaces all other known_hosts files. */
  knownHostsFile?: string | undefined;
  /** Replaces all other keys. */
  identityFile?: string | undefined;
  /**
   * The folder of the control socket; only this user may write to it. If its path is too long for a socket, a folder
   * for temporary files is used instead.
   */
  controlFolder: string;
  connectTimeoutSeconds: number;
}

/** An idle connection stays open for this time, even after Bursar was killed. */
const persistSeconds = 600;
/** A dead connection is detected after three of these intervals. */
const aliveIntervalSeconds = 10;

/** The time limit of a login, and of everything that may need one. ssh applies its own to the connection, not to a login that hangs. */
export const loginTimeoutMs = ({ connectTimeoutSeconds }: SshTarget) => (connectTimeoutSeconds + 10) * 1000;

/** Builds the ssh command line up to and including the host. These options come first: in ssh the first value wins. */
export function sshArgv(target: SshTarget, ...extra: string[]): string[] {
  const { host, user, port, configFile, knownHostsFile, identityFile, connectTimeoutSeconds } = target;
  const options = {
    BatchMode: 'yes',
    StrictHostKeyChecking: 'yes',
    UpdateHostKeys: 'no',
    ControlMaster: 'auto',
    ControlPersist: `${persistSeconds}`,
    ControlPath: quoteForOption(controlSocketPath(target)),
    ConnectTimeout: `${connectTimeoutSeconds}`,
    ServerAliveInterval: `${aliveIntervalSeconds}`,
    ServerAliveCountMax: '3',
    // Override what the operator may have configured for interactive sessions.
    LogLevel: 'ERROR',
    RequestTTY: 'no',
    RemoteCommand: 'none',
    PermitLocalCommand: 'no',
    ClearAllForwardings: 'yes',
    ForwardAgent: 'no',
    ForwardX11: 'no',
    ...(knownHostsFile && { UserKnownHostsFile: quoteForOption(knownHostsFile), GlobalKnownHostsFile: '/dev/null' }),
    ...(identityFile && { IdentityFile: quoteForOption(identityFile), IdentitiesOnly: 'yes' }),
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

/** The socket's name is a hash of everything that identifies the connection, so that no other target shares it. */
export function controlSocketPath({ controlFolder, connectTimeoutSeconds: _, ...identity }: SshTarget): string {
  const name = shortHash(JSON.stringify(Object.entries(identity).sort()));
  // The name is the same after a crash, so that the connection is found again and folders do not accumulate.
  const shortFolder = `bursar-${process.getuid?.() ?? 'ssh'}-${shortHash(controlFolder)}`;
  const folders = [controlFolder, join(tmpdir(), shortFolder), join('/tmp', shortFolder)];
  return folders.map((folder) => join(folder, name)).find(fitsSocket) ?? join('/tmp', shortFolder, name);
}

const shortHash = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 12);

/** ssh appends 17 characters while it creates the socket. macOS allows 104 bytes including the final NUL, Linux 108. */
const fitsSocket = (path: string) => Buffer.byteLength(path) + 17 <= 103;

/** Quotes a path for an ssh option: ssh splits options at spaces and expands `%`. */
const quoteForOption = (path: string) => `"${path.replaceAll('%', '%%')}"`;
