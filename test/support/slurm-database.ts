import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { attempt } from './attempt.ts';
import type { Daemons } from './daemons.ts';

/** The socket of the private MariaDB, in a folder that only its owner can enter. */
export const databaseSocketPath = (folder: string) => join(folder, 'mariadb', 'socket');

/** Starts MariaDB and slurmdbd, and registers the cluster. munged must be running. */
export async function startDatabase(folder: string, daemons: Daemons): Promise<void> {
  const home = join(folder, 'mariadb');
  // MariaDB removes the temporary tables that it finds there when it starts, also those of another server.
  const temporary = join(home, 'tmp');
  await mkdir(home, { mode: 0o700 });
  await mkdir(temporary);
  const folders = [`--datadir=${join(home, 'data')}`, `--tmpdir=${temporary}`];
  const common = ['--no-defaults', `--user=${userInfo().username}`, ...folders];
  daemons.run('mariadb-install-db', ...common, '--auth-root-authentication-method=normal', '--skip-test-db');
  const socket = databaseSocketPath(folder);
  // No durability: the data is removed after the test.
  const fastOptions = [
    '--innodb-flush-log-at-trx-commit=0',
    '--innodb-buffer-pool-size=16M',
    '--innodb-log-file-size=8M',
  ];
  daemons.start('mariadbd', 'mariadbd', [...common, '--skip-networking', `--socket=${socket}`, ...fastOptions]);
  await daemons.until('mariadbd listens', () => existsSync(socket));
  daemons.start('slurmdbd', 'slurmdbd', ['-D']);
  const add = () => daemons.run('sacctmgr', '-i', 'add', 'cluster', 'bursar').includes('bursar');
  const isAdded = () => daemons.run('sacctmgr', '-n', 'show', 'cluster').includes('bursar');
  // On a busy machine sacctmgr can give up although slurmdbd adds the cluster. A second `add` of it fails.
  await daemons.until('slurmdbd has the cluster', () => attempt(add) || attempt(isAdded));
}
