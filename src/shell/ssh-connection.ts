import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { lstat, mkdir, readFile, rm, rmdir } from 'node:fs/promises';
import { connect as connectSocket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { BursarError } from '../domain/errors.ts';
import { unavailableError } from './shell.ts';

/**
 * The ssh connection that all commands share. Opens it explicitly. ssh would open it with the first command; but then concurrent first commands would
 * open one connection each, and the background process of an older ssh would keep the first command's outputs open.
 */
export function createSshConnection(target: SshTarget, environment: Record<string, string>) {
  const socket = controlSocketPath(target);
  const folder = dirname(socket);
  const log = `${socket}.log`;
  let connecting: Promise<void> | null = null;
  let closing = new AbortController();

  async function connect() {
    const { signal } = closing;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await requirePrivateFolder(folder);
    await rm(log, { force: true });
    const code = await runSsh([...sshArgv(target, '-E', log), 'exit 0'], environment, loginTimeoutMs(target), signal);
    if (code === 0) return;
    const sshLog = await readFile(log, 'utf8').catch(() => '');
    throw connectionError(target, sshLog || `the login ${code === null ? 'did not answer' : `ended with ${code}`}`);
  }

  return {
    /** Opens the connection unless it is open. It may be lost again at any time. */
    async ensure(): Promise<void> {
      if (connecting === null && (await isListening(socket))) return await requirePrivateFolder(folder);
      connecting ??= connect().finally(() => {
        connecting = null;
      });
      await connecting;
    },

    /** Closes the connection, even one that is being opened. */
    async close(): Promise<void> {
      closing.abort();
      closing = new AbortController();
      await connecting?.catch(() => undefined);
      const exit = () => runSsh(sshArgv(target, '-O', 'exit'), environment, loginTimeoutMs(target));
      const hasExited = (await isListening(socket)) && (await exit()) === 0;
      if (folder === target.controlFolder) return;
      // ssh removes its socket a moment after it has confirmed the exit.
      if (hasExited) await rm(socket, { force: true });
      await rm(log, { force: true });
      // Fails if another connection still uses the folder.
      await rmdir(folder).catch(() => undefined);
    },
  };
}

/**
 * Anyone who can create a socket in the folder can impersonate the cluster. In /tmp another user may have created the
 * folder first.
 */
async function requirePrivateFolder(folder: string): Promise<void> {
  const stats = await lstat(folder);
  const isOwn = stats.uid === (process.getuid?.() ?? stats.uid);
  if (isOwn && stats.isDirectory() && (stats.mode & 0o022) === 0) return;
  throw unavailableError(
    `${folder} must be a folder that only this user can write to: remove it, or choose a shorter path for the data folder`,
  );
}

/** Connects to the socket: its file remains when the process that owned it was killed. */
async function isListening(path: string): Promise<boolean> {
  const probe = connectSocket({ path });
  try {
    await once(probe, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    probe.destroy();
  }
}

/** Returns the exit code; null if ssh could not be started, or was killed: at the timeout, or by the signal. */
async function runSsh(
  [program = '', ...args]: string[],
  env: Record<string, string>,
  timeout: number,
  signal?: AbortSignal,
) {
  const options = { cwd: '/', env, detached: true, stdio: 'ignore', timeout, killSignal: 'SIGKILL', signal } as const;
  try {
    const [code] = await once(spawn(program, args, options), 'exit');
    return code as number | null;
  } catch {
    return null;
  }
}

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

/** Explains from ssh's own error output what is wrong with a connection and how to fix it. */
export function connectionError(target: SshTarget, sshOutput: string): BursarError {
  const output = sshOutput.trim();
  const problem = knownProblems(target).find(({ pattern }) => pattern.test(output))?.problem;
  const lastLine = output.split('\n').at(-1)?.trim() || 'ssh did not say why';
  return unavailableError(`Bursar has no connection to ${target.host}: ${problem ?? lastLine}.`, new Error(output));
}

function knownProblems({ host, user, port, identityFile, knownHostsFile }: SshTarget) {
  const knownHosts = knownHostsFile ?? '~/.ssh/known_hosts';
  const scan = `ssh-keyscan ${port ? `-p ${port} ` : ''}${host} >> ${knownHosts}`;
  const pin = `run "${scan}" and compare "ssh-keygen -lf ${knownHosts}" with the fingerprint that its site has published`;
  const key = identityFile ? `the key ${identityFile}` : 'the keys of its ssh_config and agent';
  const account = user ? `the account ${user}` : 'the account';
  const knownHostsName = port ? `[${host}]:${port}` : host;
  return [
    {
      pattern: /IDENTIFICATION HAS CHANGED|host key .*has changed/i,
      problem: `its host key is not the pinned one. Ask its site whether the key was changed; only if so, run "ssh-keygen -R '${knownHostsName}' -f ${knownHosts}", then ${pin}`,
    },
    {
      pattern: /Host key verification failed|host key is known/i,
      problem: `its host key is not known. To pin it, as the user that runs Bursar, ${pin}`,
    },
    {
      pattern: /Permission denied/i,
      problem: `it did not accept ${key} for ${account}. Add the public key to ~/.ssh/authorized_keys there`,
    },
    {
      pattern: /Could not resolve/i,
      problem: 'there is no host of this name. Correct the name, or check the DNS',
    },
    {
      pattern: /Connection refused|timed out|No route|unreachable|Connection reset|Connection closed|did not answer/i,
      problem: `it cannot be reached${port ? ` at port ${port}` : ''}. Check that it is up and that no firewall blocks ssh`,
    },
  ];
}
