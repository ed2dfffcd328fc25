// Runs several servers on PostgreSQL and Slurm, kills everything again and again, and compares what Bursar stored with what
// each job recorded itself: `npm run chaos -- --minutes 25`. The exit code is 1 if a job was lost, doubled, or has a wrong
// outcome or charge.
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startPostgres } from '../test/support/postgres.ts';
import { type ServerProcess, spawnServer } from '../test/support/server-process.ts';
import { startCluster } from '../test/support/slurm-cluster.ts';
import { slurmConfig } from '../test/support/slurm-config.ts';
import { until } from '../test/support/until.ts';
import { compareJob, type Difference, parseOwnRecord, type StoredJob } from './compare.ts';
import { type FaultLog, injectFaults, resumeDrainedNodes } from './faults.ts';
import { countHeldSeconds, parseCompletions, parseWrapperRecord, type WrapperRecord } from './held-time.ts';
import { recordFile, runWorkload } from './workload.ts';

const { values: options } = parseArgs({
  options: {
    minutes: { type: 'string', default: '25' },
    servers: { type: 'string', default: '3' },
    users: { type: 'string', default: '4' },
    /** Keeps the folder with the logs and records. */
    keep: { type: 'boolean', default: false },
  },
});
const minutes = Number(options.minutes);
if (!(minutes > 0)) throw new Error('--minutes must be a positive number');
/** A job can wait behind others, and be shown as running for a while after a crash of the controller. */
const settleSeconds = 900;

const folder = mkdtempSync(join(tmpdir(), 'bursar-chaos-'));
const data = join(folder, 'data');
const nodes = ['n1', 'n2', 'n3', 'n4'];
const cluster = await startCluster({ nodes: nodes.length });
const postgres = await startPostgres({ durable: true });
const servers: ServerProcess[] = [];
try {
  await postgres.database('bursar');
  process.exitCode = (await run()) ? 0 : 1;
} finally {
  await Promise.all(servers.map((server) => server.stop()));
  await cluster.stop();
  await postgres.close();
  if (options.keep) console.log(`The logs and records are in ${folder}`);
  else rmSync(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 });
}

function startServer(): Promise<ServerProcess> {
  return spawnServer({
    data,
    config: slurmConfig(cluster),
    tuning: { missingAlarmMs: 30_000 },
    env: { BURSAR_DATABASE_URL: postgres.url('bursar') },
    logFile: join(folder, 'server.log'),
  });
}

/** Returns whether everything was right. */
async function run(): Promise<boolean> {
  for (let count = 0; count < Number(options.servers); count++) servers.push(await startServer());
  const tokens = await Promise.all(
    Array.from({ length: Number(options.users) }, (_, user) => (servers[0] as ServerProcess).token(String(100 + user))),
  );
  const stop = new AbortController();
  const log: FaultLog = { counts: new Map(), kills: { nodes: [], controllers: [] } };
  const urls = () => servers.map(({ url }) => url);
  const workload = runWorkload({ urls, tokens, intervalMs: 1500 }, stop.signal);
  const faults = injectFaults({ servers, startServer, postgres, cluster, nodes }, log, stop.signal);
  await sleep(minutes * 60_000);
  stop.abort();
  await faults;
  const { submitted, failures } = await workload;
  console.log(`${submitted.length} jobs submitted in ${minutes} minutes; waiting for their ends`);
  await waitForEnds(log);

  const stored = Map.groupBy(await readStoredJobs(), ({ title }) => title);
  const differences = submitted.flatMap((job) => {
    const storedJobs = stored.get(job.title) ?? [];
    const ownRecord = parseOwnRecord(storedJobs.map(readOwnRecord).join(''));
    const difference = compareJob(job, storedJobs, ownRecord, log.kills);
    return difference === null ? [] : [difference];
  });
  const isBalanced = await verifyLedger();
  report({ submitted: submitted.length, failures, differences, log, stored: [...stored.values()].flat() });
  return differences.length === 0 && failures.length === 0 && isBalanced;
}

async function verifyLedger(): Promise<boolean> {
  try {
    console.log((await (servers[0] as ServerProcess).bursar('ledger', 'verify')).stdout.trim());
    return true;
  } catch (error) {
    console.log((error as Error).message);
    return false;
  }
}

async function waitForEnds(log: FaultLog): Promise<void> {
  const isFinished = async () => {
    resumeDrainedNodes(cluster, log);
    await sleep(2000);
    const unfinished = (await readStoredJobs()).filter(({ outcome }) => outcome === null);
    return unfinished.length === 0 ? true : undefined;
  };
  // Jobs that did not end are reported as lost.
  await until('all jobs have ended', isFinished, settleSeconds).catch((error: Error) => console.log(error.message));
}

async function readStoredJobs(): Promise<StoredJob[]> {
  const rows = await postgres.query<Record<'job_id' | 'title' | 'outcome' | 'reason' | 'data' | 'at', string | null>>(
    'bursar',
    `select jobs.job_id, jobs.title, jobs.outcome, jobs.reason, events.data, events.at from jobs
       left join events on events.job = jobs.id and events.kind = 'job.ended'`,
  );
  const runs = parseCompletions(readOptional(join(cluster.folder, 'jobcomp')));
  return rows.map(({ job_id, title, outcome, reason, data: event, at }) => {
    const end = JSON.parse(event ?? '{}') as { exit_code?: number | null; charged_seconds?: number };
    const { exit_code: exitCode = null, charged_seconds: chargedSeconds = 0 } = end;
    const endStoredAt = at === null ? null : Number(at);
    const jobId = job_id ?? '';
    const wrapperRecord = readWrapperRecord(jobId);
    return {
      jobId,
      title: title ?? '',
      outcome: outcome as StoredJob['outcome'],
      reason,
      exitCode,
      chargedSeconds,
      heldSeconds: countHeldSeconds(runs.get(jobId) ?? [], wrapperRecord),
      hasEndRecord: wrapperRecord !== null,
      endStoredAt,
    };
  });
}

/** Null if the wrapper of the job wrote no end record. */
function readWrapperRecord(jobId: string): WrapperRecord | null {
  const file = join(data, 'workspaces', jobId, 'files.started', 'end');
  const stats = statSync(file, { throwIfNoEntry: false });
  return stats === undefined ? null : parseWrapperRecord(readFileSync(file, 'utf8'), stats.mtimeMs / 1000);
}

/** Empty if the job never started. */
function readOwnRecord({ jobId }: StoredJob): string {
  return readOptional(join(data, 'workspaces', jobId, 'files', recordFile));
}

function readOptional(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
}

function report(results: {
  submitted: number;
  failures: readonly string[];
  differences: readonly { kind: Difference; text: string }[];
  log: FaultLog;
  stored: readonly StoredJob[];
}): void {
  const { submitted, failures, differences, log, stored } = results;
  const counts = (items: readonly string[]) =>
    [...Map.groupBy(items, (item) => item)].map(([item, all]) => `${all.length} ${item}`).join(', ');
  console.log(`faults: ${[...log.counts].map(([name, count]) => `${count} ${name}`).join(', ')}`);
  console.log(`outcomes: ${counts(stored.map(({ outcome }) => outcome ?? 'none'))}`);
  for (const text of failures.slice(0, 20)) console.log(`unexpected response: ${text}`);
  for (const { kind, text } of differences) console.log(`${kind}: ${text}`);
  const kinds: Difference[] = ['lost', 'doubled', 'wrong outcome', 'wrong charge'];
  const totals = kinds.map((name) => `${differences.filter(({ kind }) => kind === name).length} ${name}`);
  console.log(`${submitted} jobs: ${totals.join(', ')}; ${failures.length} unexpected responses`);
}
