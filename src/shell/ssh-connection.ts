import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstat, mkdir, readFile, rm, rmdir } from 'node:fs/promises';
import { connect as connectSocket } from 'node:net';
import { dirname } from 'node:path';
import { connectionError, unavailableError } from './shell-errors.ts';
import { controlSocketPath, loginTimeoutMs, type SshTarget, sshArgv } from './ssh-target.ts';

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
  timeoutMs: number,
  signal?: AbortSignal,
) {
  const child = spawn(program, args, { cwd: '/', env, detached: true, stdio: 'ignore' });
  const kill = () => child.kill('SIGKILL');
  const timer = setTimeout(kill, timeoutMs);
  signal?.addEventListener('abort', kill);
  if (signal?.aborted) kill();
  try {
    const [code] = await once(child, 'exit');
    return code as number | null;
  } catch {
    return null;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', kill);
  }
}
