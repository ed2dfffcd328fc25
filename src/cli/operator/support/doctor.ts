import { existsSync, realpathSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { homedir, tmpdir, userInfo } from 'node:os';
import { join, resolve } from 'node:path';
import { resolveIsolation } from '../../../composition/isolation.ts';
import { createSystemBackend } from '../../../composition/systems.ts';
import { parseDatabaseUrl } from '../../../config/database-url.ts';
import type { Config } from '../../../config/schema.ts';
import { checkWorkspace, runCanaryJob } from '../../../doctor/canary.ts';
import { BursarError } from '../../../domain/errors.ts';
import { createChecklist, type Finding } from '../../../domain/systems/finding.ts';
import type { SystemIsolation } from '../../../engines/definition.ts';
import { engineOf } from '../../../engines/registry.ts';
import type { Shell } from '../../../shell/shell.ts';
import { createSpawnClient } from '../../../shell/spawn-client.ts';
import { checkDataFolder } from '../../../store/maintenance/data-folder.ts';
import type { OperatorContext } from '../operator.ts';

export interface DoctorOptions {
  system?: string;
  canary: boolean;
  timeout: string;
  json: boolean;
}

/** Checks everything from the database to a real job on each system, and prints a fix below each failed check. */
export async function doctor(context: OperatorContext, { json, ...options }: DoctorOptions): Promise<void> {
  const report = await collectFindings(context, { ...options, timeoutMs: parseTimeoutSeconds(options) * 1000 });
  if (json) context.print(`${JSON.stringify(report, null, 2)}\n`);
  else context.print(Object.entries(report).map(formatSection).join('\n'));
  const allPassed = Object.values(report).every((findings) => findings.every(({ ok }) => ok));
  if (!allPassed) context.fail();
}

interface Scope {
  system?: string;
  /** Whether to run a test job, for at most this time. */
  canary: boolean;
  timeoutMs: number;
}

/** The findings about Bursar itself and about each system. */
export async function collectFindings(context: OperatorContext, scope: Scope): Promise<Record<string, Finding[]>> {
  const { config } = context;
  const { system } = scope;
  if (system !== undefined && config.systems[system] === undefined) {
    throw new BursarError(
      'system_unknown',
      `There is no system ${system} in the configuration. Use one of: ${Object.keys(config.systems).join(', ')}.`,
    );
  }
  const report: Record<string, Finding[]> = { bursar: await checkDatabase(context) };
  // Throws if Bursar would not start with this configuration, with what to do.
  const isolations = resolveIsolation(config);
  for (const [name, isolation] of isolations) {
    if (system === undefined || system === name) report[name] = await checkSystem(config, name, isolation, scope);
  }
  return report;
}

function parseTimeoutSeconds({ timeout }: Pick<DoctorOptions, 'timeout'>): number {
  if (/^[1-9]\d{0,5}$/.test(timeout)) return Number(timeout);
  throw new BursarError('invalid_argument', '--timeout must be a whole number of seconds, such as 120.');
}

async function checkDatabase({ config, withDatabase }: OperatorContext): Promise<Finding[]> {
  const { check, findings } = createChecklist();
  const address = parseDatabaseUrl(config.database.url);
  const isPostgres = address.kind === 'postgres';
  const fix = isPostgres
    ? 'Check that PostgreSQL runs there and accepts the user of database.url (BURSAR_DATABASE_URL). See docs/postgresql.md.'
    : 'Give the user that Bursar runs as write permission on the data folder (BURSAR_DATA).';
  // Without the user and the password.
  const location = isPostgres
    ? `PostgreSQL on ${address.host}, port ${address.port}, database ${address.database}`
    : resolve(config.data, address.file);
  await check('the database can be opened and written', fix, () => withDatabase(async () => location));
  if (isPostgres && findings.every(({ ok }) => ok)) {
    const sharedFix =
      'Mount the data folder that the other instances use, and set BURSAR_DATA to it. See docs/scaling.md.';
    await check('the data folder is shared by all instances', sharedFix, async () => {
      const folder = resolve(config.data);
      await withDatabase((db) => checkDataFolder(db, folder));
      return folder;
    });
  }
  return findings;
}

async function checkSystem(
  config: Config,
  name: string,
  isolation: SystemIsolation,
  { canary, timeoutMs }: Scope,
): Promise<Finding[]> {
  const settings = config.systems[name];
  if (settings === undefined) return [];
  const { check, findings } = createChecklist();
  // A temporary folder, because a running server may be using its engine's folder or its ssh connection. A cluster
  // without ssh needs the data folder, which the compute nodes can see.
  const folder = await mkdtemp(join(tmpdir(), 'bursar-doctor-'));
  const { scheduler, runChecks } = engineOf(settings);
  const { ssh } = settings.engine;
  const needsDataFolder = scheduler !== undefined && ssh === undefined;
  const dataFolder = needsDataFolder ? resolve(config.data) : folder;
  const ignore = () => undefined;
  const options = {
    settings,
    dataFolder,
    isolation,
    protectedFiles: [],
    startProcess: createSpawnClient(),
    onError: ignore,
  };
  const backend = createSystemBackend(name, options, { increment: ignore, observe: ignore }, null);
  const { shell, workspaces, siteOptions } = backend;
  const engine = backend.createEngine();
  try {
    const sites = new Map(settings.projects.map((project) => [project.name, siteOptions(project.name)]));
    await runChecks?.(check, { system: settings, shell, sites });
    const site = siteOptions(settings.projects[0]?.name ?? '');
    const isReachable = findings[0]?.ok ?? true;
    const forbidden =
      ssh !== undefined && shell !== null && isReachable
        ? { home: await readRemoteHome(shell), data: [] }
        : { home: namesOf(homedir(), userInfo().homedir), data: namesOf(resolve(config.data)) };
    const target = {
      engine,
      workspaces,
      site,
      isolation: isolation.inEffect,
      scheduler,
      forbidden,
      ...createOutputReader(shell),
    };
    if (isReachable) await checkWorkspace(check, target);
    if (canary && findings.every(({ ok }) => ok)) {
      await engine.open(AbortSignal.timeout(60_000));
      await runCanaryJob(check, target, timeoutMs);
    }
    return findings;
  } finally {
    await engine.close();
    await shell?.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Reads job output on the host that has the workspaces. */
function createOutputReader(shell: Shell | null) {
  if (shell === null)
    return { host: 'this host', readLastLine: async (path: string) => lastLine(await readFile(path, 'utf8')) };
  const limits = { timeoutMs: 20_000, maxOutputBytes: 100_000 };
  const readLastLine = async (path: string) =>
    lastLine((await shell.run(['tail', '-n', '1', path], { ...limits, signal: AbortSignal.timeout(30_000) })).stdout);
  return { host: shell.hostLabel, readLastLine };
}

/** The home of the account on another host, as its user database says, and its real name. */
async function readRemoteHome(shell: Shell): Promise<string[]> {
  const limits = { timeoutMs: 20_000, maxOutputBytes: 10_000, signal: AbortSignal.timeout(30_000) };
  const { stdout } = await shell.run(['bash', '--norc', '-c', 'unset HOME; echo ~; cd ~ && pwd -P'], limits);
  return [...new Set(stdout.trim().split('\n'))];
}

/** The folders under these names and under their real ones. A job may see a folder under one of them only. */
function namesOf(...folders: string[]): string[] {
  return [...new Set(folders.flatMap((folder) => [folder, existsSync(folder) ? realpathSync(folder) : folder]))];
}

const lastLine = (text: string) => text.trim().split('\n').at(-1) ?? '';

function formatSection([name, findings]: [string, Finding[]]): string {
  const lines = findings.map(({ check, ok, detail, fix }) => {
    const sign = ok ? (fix === null ? '✔' : '!') : '✖';
    return `  ${sign} ${check}: ${detail}${fix === null ? '' : `\n      → ${fix}`}`;
  });
  return `${name}\n${lines.join('\n')}\n`;
}
