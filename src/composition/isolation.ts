import { spawnSync } from 'node:child_process';
import { realpathSync, statSync } from 'node:fs';
import { homedir, userInfo } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseDatabaseUrl } from '../config/database-url.ts';
import { findConfigFile } from '../config/load.ts';
import { referencesKey } from '../config/references.ts';
import type { Config } from '../config/schema.ts';
import type { SlurmEngineConfig, SystemConfig } from '../config/system-schema.ts';
import { BursarError } from '../domain/errors.ts';
import { type Isolation, isInside } from '../domain/systems/isolation.ts';
import type { Account, LocalSandbox } from '../engines/local/sandbox.ts';
import { isVisible } from '../engines/sandbox/arguments.ts';
import { findHiddenPaths, type ProbedSettings, probeBubblewrap } from '../engines/sandbox/host.ts';
import type { SlurmIsolation } from '../engines/slurm/isolation.ts';
import { findIsolationRefusals, installBubblewrap } from './isolation-rules.ts';

/** How the jobs of a system run. */
export interface SystemIsolation {
  /** For `auto`: the result of the probe. */
  inEffect: Isolation;
  /** Of the local engine, if its jobs are isolated. */
  sandbox?: LocalSandbox;
  /** Of the local engine, with `runAs`. */
  account?: Account;
  /** Of Slurm, if its jobs are isolated at least on some nodes. */
  slurm?: SlurmIsolation;
}

/**
 * Decides how the jobs of each system are isolated, by trying on this host. Throws `invalid_config`, with what to do, if that
 * is not possible as configured or not safe.
 */
export function resolveIsolation(config: Config): Map<string, SystemIsolation> {
  const hidden = findSecrets(config);
  // Two of them can be on one cluster, and their jobs then have one account.
  const slurmFolders = Object.values(config.systems)
    .filter(({ engine }) => engine.kind === 'slurm')
    .map((system) => workspaceFolderOf(system, resolve(config.data)));
  const probe = createProbe(hidden);
  const systems = Object.entries(config.systems).map(([name, settings]) => ({
    name,
    settings,
    workspaceFolder: workspaceFolderOf(settings, resolve(config.data)),
    ...(settings.engine.kind === 'local'
      ? resolveLocal(name, settings, resolve(config.data), hidden, probe)
      : resolveSlurm(settings, settings.engine, slurmFolders, hidden)),
  }));
  const refusals = findIsolationRefusals({
    systems: systems.map((system) => ({ ...system, workspaceFolder: realName(system.workspaceFolder) })),
    dataFolder: realName(resolve(config.data)),
    host: config.server.host,
    isShippedConfig: findConfigFile(process.env) === null,
    isRoot: process.getuid?.() === 0,
  });
  if (refusals.length > 0) {
    const list = refusals.map(({ field, message }) => `  ${field}: ${message}`).join('\n');
    throw new BursarError('invalid_config', `Bursar does not start, because jobs could harm it:\n${list}`, {
      fields: refusals,
    });
  }
  return new Map(systems.map(({ name, settings: _settings, workspaceFolder: _folder, ...system }) => [name, system]));
}

/**
 * How the jobs of each system are isolated, for a process that runs no jobs. It knows only what the configuration ensures: a
 * worker without bubblewrap does not start if that is required. With `auto`, the hosts of the jobs decide.
 */
export function readConfiguredIsolation(config: Config): Map<string, SystemIsolation> {
  return new Map(
    Object.entries(config.systems).map(([name, settings]) => [name, { inEffect: findEnsuredIsolation(settings) }]),
  );
}

function findEnsuredIsolation({ isolation, scheduler, engine }: SystemConfig): Isolation {
  if (isolation === 'none') return { kind: 'none', reason: 'isolation: none is configured' };
  if (scheduler) {
    const reason = 'scheduler: true lets jobs use Slurm, which starts tasks outside of the isolation';
    return { kind: 'none', reason };
  }
  if (isolation === 'bubblewrap') return { kind: 'bubblewrap' };
  const hosts = engine.kind === 'slurm' ? 'on Slurm only on nodes' : 'only on a host';
  const reason = `isolation: auto isolates jobs ${hosts} where bubblewrap works; isolation: bubblewrap makes sure of it`;
  return { kind: 'none', reason };
}

export function workspaceFolderOf({ engine }: SystemConfig, dataFolder: string): string {
  return engine.workspaceFolder ?? join(dataFolder, 'workspaces');
}

type Probe = (settings: Omit<ProbedSettings, 'hidden'>) => ReturnType<typeof probeBubblewrap>;

/** Systems with the same settings share the result: a probe starts several processes. */
function createProbe(hidden: readonly string[]): Probe {
  const results = new Map<string, ReturnType<Probe>>();
  return (settings) => {
    const key = JSON.stringify(settings);
    const result = results.get(key) ?? probeBubblewrap(process.env.PATH, { ...settings, hidden });
    results.set(key, result);
    return result;
  };
}

function resolveLocal(
  name: string,
  settings: SystemConfig,
  dataFolder: string,
  hidden: readonly string[],
  probe: Probe,
): SystemIsolation {
  const { engine, isolation, readOnly, network } = settings;
  const runAs = engine.kind === 'local' ? engine.runAs : undefined;
  const account = runAs === undefined ? {} : { account: findAccount(name, runAs) };
  const bubblewrap =
    isolation === 'none' ? { reason: 'isolation: none is configured' } : probe({ readOnly, network, ...account });
  if ('program' in bubblewrap) {
    return { inEffect: { kind: 'bubblewrap' }, sandbox: { ...bubblewrap, readOnly, network, hidden }, ...account };
  }
  if (isolation === 'bubblewrap') {
    throw new BursarError(
      'invalid_config',
      `systems.${name}.isolation is bubblewrap, but ${bubblewrap.reason}. ${installBubblewrap}`,
    );
  }
  if (runAs !== undefined) requireEntry(name, runAs, workspaceFolderOf(settings, dataFolder));
  return { inEffect: { kind: 'none', reason: bubblewrap.reason }, ...account };
}

/** Throws if another account cannot enter the folder that contains the workspaces. Isolated jobs need not. */
function requireEntry(system: string, account: string, workspaceFolder: string): void {
  for (let folder = dirname(workspaceFolder); folder !== dirname(folder); folder = dirname(folder)) {
    const stats = statSync(folder, { throwIfNoEntry: false });
    if (stats !== undefined && (stats.mode & 0o001) !== 0) continue;
    const message =
      `systems.${system}.engine.workspaceFolder: the account ${account} cannot enter ${folder}, which contains the ` +
      'workspaces. Set it to a folder inside of folders that everybody can enter (chmod o+x), such as /srv/bursar-jobs.';
    throw new BursarError('invalid_config', message);
  }
}

/**
 * Only the nodes know whether bubblewrap works there. With `auto` each node decides, so that nothing is promised: jobs count as
 * not isolated.
 */
function resolveSlurm(
  settings: SystemConfig,
  { ssh }: SlurmEngineConfig,
  workspaceFolders: readonly string[],
  secrets: readonly string[],
): SystemIsolation {
  const inEffect = findEnsuredIsolation(settings);
  if (settings.isolation === 'none') return { inEffect };
  const { readOnly, network, scheduler } = settings;
  // With ssh the files of Bursar are on another host than the jobs.
  const hidden = [
    ...[...new Set(workspaceFolders)].map((path) => ({ path, kind: 'folder' }) as const),
    ...(ssh ? [] : findHiddenPaths(secrets)),
  ];
  const required = settings.isolation === 'bubblewrap';
  return { inEffect, slurm: { required, readOnly, network, scheduler, hidden } };
}

/** Files of Bursar and its account that no job may see. Those that do not exist are ignored later. */
function findSecrets(config: Config): string[] {
  const dataFolder = resolve(config.data);
  const database = parseDatabaseUrl(config.database.url);
  const sqliteFile = database.kind === 'sqlite' ? resolve(dataFolder, database.file) : null;
  const configFile = findConfigFile(process.env);
  const systems = Object.values(config.systems);
  const sshFiles = systems.flatMap(({ engine }) => {
    const ssh = engine.kind === 'slurm' ? engine.ssh : undefined;
    return [ssh?.identityFile, ssh?.configFile].flatMap((file) => (file === undefined ? [] : resolve(file)));
  });
  const readOnly = systems.flatMap((system) => system.readOnly);
  const { key: tlsKey } = config.server.tls ?? {};
  const keyFiles = [...(tlsKey === undefined ? [] : [resolve(tlsKey)]), ...(config[referencesKey]?.files ?? [])];
  return [
    ...[dataFolder, homedir(), userInfo().homedir],
    ...[...(configFile === null ? [] : [configFile]), ...sshFiles, ...keyFiles].flatMap((file) =>
      withItsFolder(file, readOnly),
    ),
    ...(sqliteFile === null ? [] : ['', '-wal', '-shm'].map((suffix) => sqliteFile + suffix)),
    ...systems.map((system) => workspaceFolderOf(system, dataFolder)),
  ];
}

/**
 * A file that hides another one disappears for running jobs when that one is replaced, as editors do. So the folder is hidden,
 * unless jobs need other files in it.
 */
function withItsFolder(file: string, readOnly: readonly string[]): string[] {
  const isNeeded = (folder: string) =>
    /^\/[^/]*$|^\/usr\/|^\/etc\/ssh$/.test(folder) || readOnly.some((path) => isInside(path, folder));
  const folders = [file, realName(file)].map((name) => dirname(name)).filter((folder) => !isNeeded(folder));
  return [file, ...folders];
}

/**
 * The configuration file, if running jobs would see its next version. It is hidden, but its folder cannot be, because jobs need
 * other files in it.
 */
export function findExposedConfigFile(config: Config, isolations: ReadonlyMap<string, SystemIsolation>): string | null {
  const file = findConfigFile(process.env);
  if (file === null) return null;
  const hidden = findSecrets(config)
    .filter((path) => path !== file)
    .map((path) => ({ path, kind: 'folder' }) as const);
  const systems = Object.entries(config.systems).filter(([name, { engine }]) => {
    const { sandbox, slurm } = isolations.get(name) ?? {};
    return sandbox !== undefined || (slurm !== undefined && engine.kind === 'slurm' && engine.ssh === undefined);
  });
  return systems.some(([, { readOnly }]) => isVisible(file, { readOnly, hidden })) ? file : null;
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

/** The path without symbolic links, also of a folder that does not exist yet. */
function realName(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(realName(parent), path.slice(parent.length));
  }
}
