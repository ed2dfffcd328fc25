import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync } from 'node:fs';
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import type { SshShellOptions } from '../../src/shell/ssh-shell.ts';
import { killAll } from './attempt.ts';
import { daemonPath } from './daemons.ts';
import { freePorts } from './ports.ts';
import { type ListedProcess, listProcesses } from './process-list.ts';
import { until } from './until.ts';

export interface TestSshd {
  /** Options for `createSshShell` to log in as the user that runs the tests. */
  options: SshShellOptions;
  folder: string;
  /** Kills the server and all of its connections. */
  stop(): Promise<void>;
  /**
   * Makes every command that contains the text hang before it starts, as on a file system that does not answer; null ends
   * that for later commands. Only with the option `canHang`.
   */
  hang(text: string | null): Promise<void>;
  /** Waits until a command hangs because of the last call of `hang`. */
  waitForHang(): Promise<void>;
  /** Keeps the host key and the port; all connections are lost. */
  restart(): Promise<void>;
  /** Stops the server and removes its folder. */
  close(): Promise<void>;
}

/** Starts a real OpenSSH server on a free loopback port, without the configuration of the host. */
export async function startSshd({ canHang = false } = {}): Promise<TestSshd> {
  const program = findSshd();
  const folder = await mkdtemp(join(tmpdir(), 'bursar-sshd-'));
  const at = (name: string) => join(folder, name);
  for (const name of ['host_key', 'user_key']) {
    execute(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', at(name)]);
  }
  const [port = 0] = await freePorts(1);
  const lines = [
    `Port ${port}`,
    'ListenAddress 127.0.0.1',
    `HostKey ${at('host_key')}`,
    `AuthorizedKeysFile ${at('user_key.pub')}`,
    'PidFile none',
    'StrictModes no',
    'UsePAM no',
    'PermitRootLogin yes',
    'PasswordAuthentication no',
    'KbdInteractiveAuthentication no',
    // With SHLVL set, bash does not read the account's .bashrc, which may be slow.
    `SetEnv SHLVL=1 PATH="${daemonPath}"`,
  ];
  if (canHang) {
    await writeFile(at('command'), hangingCommand(at('hang')), { mode: 0o755 });
    lines.push(`ForceCommand ${at('command')}`);
  }
  await writeFile(at('sshd_config'), `${lines.join('\n')}\n`);
  await writeFile(at('ssh_config'), '');
  const [type, key] = (await readFile(at('host_key.pub'), 'utf8')).split(' ');
  await writeFile(at('known_hosts'), `[127.0.0.1]:${port} ${type} ${key}\n`);
  // As root, sshd requires this folder for privilege separation. A host without a running sshd lacks it.
  if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true, mode: 0o755 });

  let server: ChildProcess | null = null;
  async function start() {
    const started = spawn(program, ['-D', '-e', '-f', at('sshd_config')], { stdio: ['ignore', 'ignore', 'pipe'] });
    let log = '';
    started.stderr.on('data', (chunk) => {
      log += chunk;
    });
    server = started;
    await until('sshd answers', async () => {
      if (started.exitCode !== null) throw new Error(`sshd ended with ${started.exitCode}: ${log}`);
      return (await isOpen(port)) || undefined;
    });
  }

  async function stop() {
    const stopped = server;
    server = null;
    if (stopped?.pid === undefined || stopped.exitCode !== null) return;
    const exit = once(stopped, 'exit');
    killAll([stopped.pid, ...descendantsOf(stopped.pid)]);
    await exit;
  }

  await start();
  return {
    folder,
    options: {
      host: '127.0.0.1',
      user: userInfo().username,
      port,
      configFile: at('ssh_config'),
      knownHostsFile: at('known_hosts'),
      identityFile: at('user_key'),
      controlFolder: at('control'),
      connectTimeoutSeconds: 120,
      environment: {},
    },
    stop,
    async hang(text) {
      await rm(at('hang'), { force: true });
      await rm(at('hanging'), { force: true });
      if (text === null) return;
      // Renamed: a command that read it before it has its content would hang whatever it contains.
      await writeFile(at('hang.new'), text);
      await rename(at('hang.new'), at('hang'));
    },
    async waitForHang() {
      await until('a command hangs', () => existsSync(at('hanging')) || undefined);
    },
    async restart() {
      await stop();
      await start();
    },
    async close() {
      await stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Runs the requested command, unless it contains the text in the file: then it hangs, and cannot be killed over ssh. */
const hangingCommand = (file: string) => `#!/bin/sh
if [ -e ${file} ]; then
  text=$(cat ${file})
  [ -z "$text" ] || case $SSH_ORIGINAL_COMMAND in *"$text"*) touch ${file}ing; exec sleep 3600 ;; esac
fi
exec sh -c "$SSH_ORIGINAL_COMMAND"
`;

/** Returns an absolute path, which sshd requires. */
function findSshd(): string {
  const found = ['/usr/sbin/sshd', '/usr/local/sbin/sshd', '/usr/bin/sshd', '/sbin/sshd'].find(existsSync);
  if (found === undefined) throw new Error('sshd is missing: apt-get install openssh-server');
  return found;
}

const execute = ([program = '', ...args]: string[]) => execFileSync(program, args, { stdio: 'inherit' });

async function isOpen(port: number): Promise<boolean> {
  const probe = connect({ host: '127.0.0.1', port });
  try {
    await once(probe, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    probe.destroy();
  }
}

function descendantsOf(pid: number): number[] {
  const processes = listProcesses();
  const childrenOf = (ancestor: number): number[] =>
    processes.flatMap((each) => (each.parent === ancestor ? [each.pid, ...childrenOf(each.pid)] : []));
  return childrenOf(pid);
}

/** Finds the background ssh processes (ControlMaster) that hold shared connections. */
export function findControlMasters(controlFolder: string): number[] {
  const isMaster = ({ command, state }: ListedProcess) => command.includes(`ssh: ${controlFolder}/`) && state !== 'Z';
  return listProcesses()
    .filter(isMaster)
    .map(({ pid }) => pid);
}

export function killControlMasters(controlFolder: string): void {
  killAll(findControlMasters(controlFolder));
}
