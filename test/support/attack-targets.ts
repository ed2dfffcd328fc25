import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { descriptorServer } from './attack-programs.ts';
import type { AttackTargets } from './attacks.ts';
import { killAll } from './attempt.ts';
import { createPrivateFile, removePrivateFile } from './private-file.ts';
import { listProcesses } from './process-list.ts';

/** The environment variable with the private file in /etc for tests of an account that cannot create it. */
export const privateFileVariable = 'BURSAR_TEST_PRIVATE_FILE';

export interface CreatedTargets {
  /** All targets but the record of the attacking job, which does not exist yet. */
  targets: Omit<AttackTargets, 'ownRecord'>;
  /** The folder of the stand-ins of Bursar's data and of the account's home. */
  folder: string;
  /** Lists the targets that attacks have changed. Empty if all attacks failed. */
  findDamage(): string[];
  /** Whether a process that hid itself is still running. Ends it. */
  findHiddenProcess(): boolean;
  close(): void;
}

/**
 * Opens the sockets of the stand-in of Bursar, and prints its port. Replaces the configuration again and again, and notes when the
 * shared memory of a job on Slurm can be entered by other accounts.
 */
const standIn = `
  const { createServer } = require('node:net');
  const { readdirSync, renameSync, statSync, writeFileSync } = require('node:fs');
  const [socket, abstractSocket, configFile, exposedFile] = process.argv.slice(1);
  setInterval(() => {
    writeFileSync(configFile + '.new', 'secret\\n', { mode: 0o600 });
    renameSync(configFile + '.new', configFile);
    for (const name of readdirSync('/dev/shm').filter((name) => name.startsWith('bursar-'))) {
      const { mode } = statSync('/dev/shm/' + name, { throwIfNoEntry: false }) ?? { mode: 0 };
      if (mode & 0o077) writeFileSync(exposedFile, name);
    }
  }, 100);
  createServer().listen(socket);
  createServer().listen('\\0' + abstractSocket);
  const server = createServer().listen(0, '127.0.0.1', () => console.log(server.address().port));
`;

/** Creates everything that the attacks aim at in a folder, and a process that stands for Bursar. */
export async function createAttackTargets(
  folder: string,
  neighbour: { directory: string; stdout: string },
  node: string,
  {
    configFolder = join(folder, 'config'),
    owner,
  }: { configFolder?: string; owner?: { uid: number; gid: number } | undefined } = {},
): Promise<CreatedTargets> {
  const mark = `attack-${randomBytes(8).toString('hex')}`;
  const [data, home] = [join(folder, 'data'), join(folder, 'home')];
  const files = {
    secret: join(neighbour.directory, 'secret'),
    output: neighbour.stdout,
    bashrc: join(home, '.bashrc'),
    keys: join(home, '.ssh', 'authorized_keys'),
    config: join(configFolder, 'bursar.yaml'),
    sharedMemory: `/dev/shm/${mark}`,
  };
  mkdirSync(configFolder, { recursive: true });
  mkdirSync(data, { recursive: true });
  mkdirSync(join(home, '.ssh'), { recursive: true });
  for (const file of Object.values(files)) writeFileSync(file, 'secret\n', { mode: 0o600 });
  const privateFile = process.getuid?.() === 0 ? createPrivateFile(owner) : undefined;
  const database = new DatabaseSync(join(data, 'bursar.db'));
  database.exec('CREATE TABLE tokens (token TEXT)');
  const segment = /\d+/.exec(execFileSync('ipcmk', ['-M', '1000'], { encoding: 'utf8' }))?.[0] ?? '';

  const socket = join(folder, 'socket');
  const exposed = join(folder, 'exposed');
  const child = spawn(node, ['-e', standIn, socket, mark, files.config, exposed], {
    env: { BURSAR_ATTACK_SECRET: 'secret' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [port] = await once(child.stdout, 'data');
  const [folderSocket, abstractFolderSocket] = [join(folder, 'folder-socket'), `@${mark}-folder`];
  const stranger = spawn('perl', ['-e', descriptorServer, '--', folderSocket, abstractFolderSocket], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(stranger.stdout, 'data');
  return {
    folder,
    targets: {
      neighbour: neighbour.directory,
      neighbourOutput: neighbour.stdout,
      home,
      data,
      configFile: files.config,
      privateFile: process.env[privateFileVariable] ?? privateFile ?? '/etc/absent',
      pid: child.pid ?? 0,
      socket,
      abstractSocket: mark,
      folderSocket,
      abstractFolderSocket,
      port: Number(port),
      sharedMemoryFile: files.sharedMemory,
      sharedMemoryKey: `"[[:space:]]${segment}[[:space:]]"`,
      mark,
      node,
    },
    findDamage() {
      const changed = Object.values(files).filter(
        (file) => !existsSync(file) || readFileSync(file, 'utf8') !== 'secret\n',
      );
      const tokens = database.prepare('SELECT token FROM tokens').all();
      const exposedMemory = existsSync(exposed) ? [`${readFileSync(exposed, 'utf8')} can be entered`] : [];
      return [...changed, ...exposedMemory, ...tokens.map(({ token }) => `token ${token}`)];
    },
    findHiddenProcess() {
      const hidden = listProcesses().filter(({ command }) => command.includes(`${mark} 300`));
      killAll(hidden.map(({ pid }) => pid));
      return hidden.length > 0;
    },
    close() {
      child.kill('SIGKILL');
      stranger.kill('SIGKILL');
      if (privateFile !== undefined) removePrivateFile(privateFile);
      database.close();
      rmSync(files.sharedMemory, { force: true });
      execFileSync('ipcrm', ['-m', segment]);
    },
  };
}
