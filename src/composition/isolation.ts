import { homedir, userInfo } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseDatabaseUrl } from '../config/database-url.ts';
import { findConfigFile } from '../config/load.ts';
import { referencesKey } from '../config/references.ts';
import type { Config } from '../config/schema.ts';
import type { SystemConfig } from '../config/system-schema.ts';
import { BursarError } from '../domain/errors.ts';
import { type Isolation, isInside } from '../domain/systems/isolation.ts';
import type { IsolationContext, SystemIsolation } from '../engines/definition.ts';
import { engineOf } from '../engines/registry.ts';
import { isVisible } from '../engines/sandbox/arguments.ts';
import { probeBubblewrap, realName } from '../engines/sandbox/host.ts';
import { findIsolationRefusals } from './isolation-rules.ts';

/**
 * Decides how the jobs of each system are isolated, by trying on this host. Throws `invalid_config`, with what to do, if that
 * is not possible as configured or not safe.
 */
export function resolveIsolation(config: Config): Map<string, SystemIsolation> {
  const dataFolder = resolve(config.data);
  const secrets = findSecrets(config);
  const probe = createProbe(secrets);
  const configured = Object.values(config.systems);
  const systems = Object.entries(config.systems).map(([name, settings]) => {
    const workspaceFolder = workspaceFolderOf(settings, dataFolder);
    const workspaceFolders = configured
      .filter(({ engine }) => engine.kind === settings.engine.kind)
      .map((system) => workspaceFolderOf(system, dataFolder));
    const ensured = findEnsuredIsolation(settings);
    const context = { name, workspaceFolder, workspaceFolders, secrets, ensured, probe };
    return { name, settings, workspaceFolder, isolation: engineOf(settings).resolveIsolation(settings, context) };
  });
  const refusals = findIsolationRefusals({
    systems: systems.map(({ name, settings, workspaceFolder, isolation: { inEffect } }) => ({
      ...{ name, settings, inEffect },
      workspaceFolder: realName(workspaceFolder),
    })),
    dataFolder: realName(dataFolder),
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
  return new Map(systems.map(({ name, isolation }) => [name, isolation]));
}

/**
 * How the jobs of each system are isolated, for a process that runs no jobs. It cannot probe the hosts that
 * run them, so only `bubblewrap` counts as isolated: a worker without it does not start. With `auto`, those hosts decide.
 */
export function readConfiguredIsolation(config: Config): Map<string, SystemIsolation> {
  return new Map(
    Object.entries(config.systems).map(([name, settings]) => [name, { inEffect: findEnsuredIsolation(settings) }]),
  );
}

function findEnsuredIsolation(settings: SystemConfig): Isolation {
  const { isolation } = settings;
  const { scheduler } = engineOf(settings);
  if (isolation === 'none') return { kind: 'none', reason: 'isolation: none is configured' };
  if (settings.scheduler) {
    const reason = `scheduler: true lets jobs use ${scheduler?.name}, which starts tasks outside the isolation`;
    return { kind: 'none', reason };
  }
  if (isolation === 'bubblewrap') return { kind: 'bubblewrap' };
  const hosts = scheduler === undefined ? 'only on a host' : `on ${scheduler.name} only on nodes`;
  const reason = `isolation: auto isolates jobs ${hosts} where bubblewrap works; isolation: bubblewrap makes sure of it`;
  return { kind: 'none', reason };
}

export function workspaceFolderOf({ engine }: SystemConfig, dataFolder: string): string {
  return engine.workspaceFolder ?? join(dataFolder, 'workspaces');
}

/** Systems with the same settings share the result: a probe starts several processes. */
function createProbe(hidden: readonly string[]): IsolationContext['probe'] {
  const results = new Map<string, ReturnType<IsolationContext['probe']>>();
  return (settings) => {
    const key = JSON.stringify(settings);
    const result = results.get(key) ?? probeBubblewrap(process.env.PATH, { ...settings, hidden });
    results.set(key, result);
    return result;
  };
}

/** Files of Bursar and its account that no job may see. Those that do not exist are ignored later. */
function findSecrets(config: Config): string[] {
  const dataFolder = resolve(config.data);
  const database = parseDatabaseUrl(config.database.url);
  const sqliteFile = database.kind === 'sqlite' ? resolve(dataFolder, database.file) : null;
  const configFile = findConfigFile(process.env);
  const systems = Object.values(config.systems);
  const sshFiles = systems.flatMap(({ engine: { ssh } }) =>
    [ssh?.identityFile, ssh?.configFile].flatMap((file) => (file === undefined ? [] : resolve(file))),
  );
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
  const systems = Object.entries(config.systems).filter(
    ([name, { engine }]) => isolations.get(name)?.sandbox !== undefined && engine.ssh === undefined,
  );
  return systems.some(([, { readOnly }]) => isVisible(file, { readOnly, hidden })) ? file : null;
}
