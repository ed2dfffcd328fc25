import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { attempt } from './attempt.ts';
import type { Daemons } from './daemons.ts';

/** Where slurmdbd finds its MariaDB: a socket in a folder that is nobody else's. */
export const databaseSocketPath = (folder: string) => join(folder, 'mariadb', 'socket');

/** Starts MariaDB and slurmdbd, and makes the cluster known to them. munged must be running. */
export async function startDatabase(folder: string, daemons: Daemons): Promise<void> {
  const home = join(folder, 'mariadb');
  const data = join(home, 'data');
  await mkdir(home, { mode: 0o700 });
  const common = ['--no-defaults', `--user=${userInfo().username}`, `--datadir=${data}`];
  daemons.run('mariadb-install-db', ...common, '--auth-root-authentication-method=normal', '--skip-test-db');
  const socket = databaseSocketPath(folder);
  // What it wrote need not outlive the machine it runs on.
  const quick = ['--innodb-flush-log-at-trx-commit=0', '--innodb-buffer-pool-size=16M', '--innodb-log-file-size=8M'];
  daemons.start('mariadbd', 'mariadbd', [...common, '--skip-networking', `--socket=${socket}`, ...quick]);
  await daemons.until('mariadbd listens', () => existsSync(socket));
  daemons.start('slurmdbd', 'slurmdbd', ['-D']);
  const register = () => daemons.run('sacctmgr', '-i', 'add', 'cluster', 'bursar').includes('bursar');
  await daemons.until('slurmdbd answers', () => attempt(register));
}
