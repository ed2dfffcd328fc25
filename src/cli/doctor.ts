import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Config } from '../config/schema.ts';
import { runCanary } from '../doctor/canary.ts';
import { type Finding, finding } from '../doctor/finding.ts';
import { checkSlurm } from '../doctor/slurm-checks.ts';
import { BursarError } from '../domain/errors.ts';
import { makeSystem } from '../systems.ts';
import { withBooks } from './books.ts';
import { exitCodes } from './exit-codes.ts';

export interface DoctorOptions {
  system?: string;
  canary: boolean;
  patience: string;
  json: boolean;
}

/** Checks everything from the books to a real job on each system, and prints the fix beside each fault. */
export async function doctor(config: Config, options: DoctorOptions): Promise<void> {
  const { system } = options;
  if (system !== undefined && config.systems[system] === undefined) {
    throw new BursarError('system_unknown', `There is no system ${system} in the configuration.`);
  }
  const report: Record<string, Finding[]> = { bursar: [await checkBooks(config)] };
  for (const name of Object.keys(config.systems)) {
    if (system === undefined || system === name) report[name] = await checkSystem(config, name, options);
  }
  if (options.json) process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
  else process.stdout.write(Object.entries(report).map(section).join('\n'));
  if (
    Object.values(report)
      .flat()
      .some((one) => !one.ok)
  )
    process.exitCode = exitCodes.failure;
}

function checkBooks(config: Config): Promise<Finding> {
  const fix = 'Give the user that Bursar runs as the right to write to the data folder (BURSAR_DATA).';
  return finding('the books can be opened and written', fix, () => withBooks(config, async () => resolve(config.data)));
}

async function checkSystem(config: Config, name: string, options: DoctorOptions): Promise<Finding[]> {
  const settings = config.systems[name];
  if (settings === undefined) return [];
  // A local engine has a folder of its own here: the server's may be in use.
  const folder = await mkdtemp(join(tmpdir(), 'bursar-doctor-'));
  const data = settings.engine.kind === 'local' ? folder : resolve(config.data);
  const parts = makeSystem(name, settings, data, { count: () => undefined });
  const engine = parts.createEngine();
  try {
    const sites = new Map(settings.projects.map((project) => [project.name, parts.siteOptions(project.name)]));
    const findings =
      settings.engine.kind === 'slurm' && parts.shell !== null
        ? await checkSlurm(parts.shell, settings.engine, sites)
        : [];
    if (!options.canary || findings.some((one) => !one.ok)) return findings;
    await engine.open(AbortSignal.timeout(60_000));
    const patienceMs = Number(options.patience) * 1000;
    const site = parts.siteOptions(settings.projects[0]?.name ?? '');
    return [...findings, ...(await runCanary(engine, parts.workspaces, site, patienceMs))];
  } finally {
    await engine.close();
    await parts.shell?.close();
    await rm(folder, { recursive: true, force: true });
  }
}

function section([name, findings]: [string, Finding[]]): string {
  const lines = findings.map(({ check, ok, detail, fix }) =>
    ok ? `  ✔ ${check}: ${detail}` : `  ✖ ${check}: ${detail}\n      → ${fix}`,
  );
  return `${name}\n${lines.join('\n')}\n`;
}
