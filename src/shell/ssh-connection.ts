import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, lstat, mkdir, readFile, rm, rmdir } from 'node:fs/promises';
import { connect as connectSocket } from 'node:net';
import { dirname } from 'node:path';
import { unavailable } from './shell-errors.ts';
import { connectionError } from './ssh-errors.ts';
import { type SshTarget, socketOf, sshArgv } from './ssh-target.ts';

/** The one connection that all commands share. */
export interface SshConnection {
  /** After success there was a connection a moment ago: the one that was there, or a new one. */
  ensure(): Promise<void>;
  close(): Promise<void>;
}

/**
 * ssh would connect by itself at the first command. Then a burst of commands would be a burst of connections, and
 * the background process of an older ssh would keep the first command's outputs open.
 */
export function createSshConnection(target: SshTarget, environment: Record<string, string>): SshConnection {
  const socket = socketOf(target);
  let connecting: Promise<void> | null = null;

  const folder = dirname(socket);
  const log = `${socket}.log`;

  async function connect() {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await requirePrivateFolder(folder);
    await rm(log, { force: true });
    // ssh keeps to its own time limit, except where a login hangs.
    const patienceMs = (target.connectTimeoutSeconds + 10) * 1000;
    const code = await runQuietly([...sshArgv(target, '-E', log), 'exit 0'], environment, patienceMs);
    if (code === 0) return;
    const said = await readFile(log, 'utf8').catch(() => '');
    throw connectionError(target, said || `the login ${code === null ? 'did not answer' : `ended with ${code}`}`);
  }

  return {
    async ensure() {
      if (connecting === null && (await isListening(socket))) return await requirePrivateFolder(folder);
      connecting ??= connect().finally(() => {
        connecting = null;
      });
      await connecting;
    },

    async close() {
      await connecting?.catch(() => undefined);
      if (await isListening(socket)) await runQuietly(sshArgv(target, '-O', 'exit'), environment, 5000);
      if (folder === target.controlFolder) return;
      await rm(log, { force: true });
      // Somebody else may use it too.
      await rmdir(folder).catch(() => undefined);
    },
  };
}

/** Whoever can put a socket there can pose as the cluster. In a folder for temporary files others may have been first. */
async function requirePrivateFolder(folder: string): Promise<void> {
  const { uid, mode } = await lstat(folder);
  if (uid === (process.getuid?.() ?? uid) && (mode & (constants.S_IFMT | 0o022)) === constants.S_IFDIR) return;
  throw unavailable(`${folder} is not a folder of this user alone: remove it, or choose a shorter path for the data`);
}

/** A socket whose owner was killed is still there as a file: only an answer counts. */
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

/** The code; null when it was killed, which it is when its time is up or it cannot be started. */
async function runQuietly([program = '', ...args]: string[], env: Record<string, string>, patienceMs: number) {
  const child = spawn(program, args, { cwd: '/', env, detached: true, stdio: 'ignore' });
  const timer = setTimeout(() => child.kill('SIGKILL'), patienceMs);
  try {
    const [code] = await once(child, 'exit');
    return code as number | null;
  } catch {
    return null;
  } finally {
    clearTimeout(timer);
  }
}
