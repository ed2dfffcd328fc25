import { spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { BursarError } from '../../domain/errors.ts';
import type { EngineSystem, IsolationContext, SystemIsolation } from '../definition.ts';
import type { Account } from '../sandbox/arguments.ts';
import { installBubblewrap } from '../sandbox/host.ts';
import type { LocalSandbox } from './sandbox.ts';
import type { LocalSettings } from './schema.ts';

/** Decides by trying on this host. */
export function resolveLocalIsolation(
  { engine, isolation, readOnly, network }: EngineSystem<LocalSettings>,
  { name, workspaceFolder, secrets, probe }: IsolationContext,
): SystemIsolation<LocalSandbox> {
  const { runAs } = engine;
  const account = runAs === undefined ? {} : { account: findAccount(name, runAs) };
  const bubblewrap =
    isolation === 'none' ? { reason: 'isolation: none is configured' } : probe({ readOnly, network, ...account });
  if ('program' in bubblewrap) {
    const sandbox = { ...bubblewrap, readOnly, network, hidden: secrets };
    return { inEffect: { kind: 'bubblewrap' }, sandbox, ...account };
  }
  if (isolation === 'bubblewrap') {
    throw new BursarError(
      'invalid_config',
      `systems.${name}.isolation is bubblewrap, but ${bubblewrap.reason}. ${installBubblewrap}`,
    );
  }
  if (runAs !== undefined) requireEntry(name, runAs, workspaceFolder);
  return { inEffect: { kind: 'none', reason: bubblewrap.reason }, ...account };
}

/** Throws if another account cannot enter the folder that contains the workspaces. Isolated jobs need not. */
function requireEntry(system: string, account: string, workspaceFolder: string): void {
  for (let folder = dirname(workspaceFolder); folder !== dirname(folder); folder = dirname(folder)) {
    const stats = statSync(folder, { throwIfNoEntry: false });
    if (stats !== undefined && (stats.mode & 0o001) !== 0) continue;
    const message =
      `systems.${system}.engine.workspaceFolder: the account ${account} cannot enter ${folder}, which contains the ` +
      'workspaces. Set it to a folder inside folders that everybody can enter (chmod o+x), such as /srv/bursar-jobs.';
    throw new BursarError('invalid_config', message);
  }
}

/** Asks `id`, because accounts can come from a directory service. */
function findAccount(system: string, name: string): Account {
  const field = `systems.${system}.engine.runAs`;
  if (process.getuid?.() !== 0) {
    const message = `${field} needs root: only root can start a job as ${name}. Start Bursar as root, or remove runAs.`;
    throw new BursarError('invalid_config', message);
  }
  const [uid, gid] = ['-u', '-g'].map((option) => {
    const { stdout, status } = spawnSync('id', [option, '--', name], { encoding: 'utf8', timeout: 10_000 });
    return status === 0 ? Number(stdout) : Number.NaN;
  });
  if (!uid || gid === undefined || Number.isNaN(gid)) {
    const problem = uid === 0 ? 'is root' : 'does not exist on this host';
    const message = `${field}: the account ${name} ${problem}. Create an account for jobs (useradd --system --user-group ${uid === 0 ? 'bursar-jobs' : name}), and name it here.`;
    throw new BursarError('invalid_config', message);
  }
  return { uid, gid, name };
}
