import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import {
  arch,
  availableParallelism,
  machine,
  platform,
  release,
  version as systemVersion,
  tmpdir,
  totalmem,
} from 'node:os';
import { basename, join, resolve } from 'node:path';
import { create } from 'tar';
import { formatConfig } from '../../../config/format.ts';
import type { Config } from '../../../config/schema.ts';
import { BursarError } from '../../../domain/errors.ts';
import { readDatabaseReport } from '../../../store/maintenance/database-report.ts';
import type { OperatorContext } from '../operator.ts';
import { localUrl } from '../server/local-url.ts';
import { collectFindings } from './doctor.ts';
import { readSafeLog } from './support-log.ts';

export interface SupportBundleOptions {
  /** Default: a name with the time, in the working directory. */
  out?: string;
  /** Address of the running server. Default: the one of the configuration. */
  url?: string;
}

/** Time for the metrics, so that a server that hangs does not prevent the bundle. */
const metricsTimeoutMs = 10_000;

/**
 * Writes an archive for those who help with a problem. It has no tokens, passwords, commands, titles and file names of users.
 * Each part is collected for itself: one that fails contains the reason. Changes nothing, and works while the server runs.
 */
export async function writeSupportBundle(
  context: OperatorContext,
  options: SupportBundleOptions,
  version: string,
): Promise<void> {
  const name = `bursar-support-${new Date().toISOString().replace(/\.\d+Z$|[:-]/g, '')}`;
  const file = resolve(options.out ?? `${name}.tgz`);
  if (existsSync(file)) throw new BursarError('conflict', `${file} already exists. Choose another file name.`);
  const temporary = await mkdtemp(join(tmpdir(), 'bursar-support-'));
  try {
    await mkdir(join(temporary, name));
    for (const [part, collect] of Object.entries(parts(context, options, version))) {
      const text = await collect().catch((error: Error) => `Not available: ${error.message}\n`);
      await writeFile(join(temporary, name, part), text, { mode: 0o600 });
    }
    // Its mode is 0600 by the umask of the operators' commands.
    await create({ cwd: temporary, file, gzip: true, portable: true }, [name]);
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
  context.print(`Wrote ${basename(file)}. Look into it before you send it: tar -xzf ${basename(file)}\n`);
}

/** The text of each file of the bundle. */
function parts(
  context: OperatorContext,
  options: SupportBundleOptions,
  version: string,
): Record<string, () => Promise<string>> {
  const { config } = context;
  return {
    'README.txt': async () => readme,
    'versions.json': async () => json(readVersions(version)),
    'configuration.yaml': async () => formatConfig(config, 'yaml'),
    'database.json': async () => json(await readDatabaseReport(config.database, resolve(config.data))),
    'doctor.json': () => readFindings(context),
    'metrics.txt': () => readMetrics(config, options.url),
    'log.ndjson': () => readSafeLog(config.log.file),
  };
}

const readme = `Written by "bursar support-bundle".

versions.json       versions of Bursar, Node and the operating system
configuration.yaml  the effective configuration; secrets are hidden
database.json       version, schema, rows of each table, and whether the ledger balances
doctor.json         findings of "bursar doctor" without its test job, also the versions of the schedulers
metrics.txt         metrics of the running server
log.ndjson          the end of the log: events with their ids; other texts are "…"

It has no tokens, passwords, commands, titles or file names of users. It does have the names of systems, projects and hosts of
the configuration.
`;

const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;

function readVersions(version: string) {
  return {
    bursar: version,
    node: process.versions,
    system: { platform: platform(), release: release(), version: systemVersion(), machine: machine(), arch: arch() },
    cpus: availableParallelism(),
    memoryBytes: totalmem(),
    runsAsRoot: process.getuid?.() === 0,
  };
}

/** The doctor opens the database as a server does, which would migrate it. */
async function readFindings(context: OperatorContext): Promise<string> {
  const { config } = context;
  const { schema } = await readDatabaseReport(config.database, resolve(config.data), { verifiesLedger: false });
  if (schema.pending.length > 0) throw new Error('the database has pending migrations; see database.json');
  return json(await collectFindings(context, { canary: false, timeoutMs: 1 }));
}

async function readMetrics({ server, metrics }: Config, url?: string): Promise<string> {
  const { host, port } = metrics.port === undefined ? server : { host: metrics.host, port: metrics.port };
  const headers: Record<string, string> =
    metrics.token === undefined ? {} : { authorization: `Bearer ${metrics.token}` };
  const address = url ?? localUrl(host, port, server.tls !== undefined);
  const response = await fetch(new URL('/metrics', address), {
    headers,
    signal: AbortSignal.timeout(metricsTimeoutMs),
  }).catch((cause: Error) => {
    throw new Error(`no server answers at ${address}. Start it, or give its address by --url. ${cause.message}`);
  });
  if (!response.ok) throw new Error(`${address}/metrics answered ${response.status}`);
  return await response.text();
}
