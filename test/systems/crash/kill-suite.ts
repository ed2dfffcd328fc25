import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse } from 'yaml';
import { toHpcSystems } from '../../../src/config/hpc-systems.ts';
import { validateConfig } from '../../../src/config/validate.ts';
import { publicJob } from '../../../src/contract/job.ts';
import { maxInMemoryBytes } from '../../../src/files/spool/spool.ts';
import { connectDatabase } from '../../../src/store/database/database.ts';
import type { Db } from '../../../src/store/database/handle.ts';
import { toJobRecord } from '../../../src/store/jobs/jobs.ts';
import { verifyLedger } from '../../../src/store/ledger/verify-ledger.ts';
import { makeZip } from '../../files/zip/hostile-zips.ts';
import { createCaller, type Job } from '../../support/api.ts';
import { databaseSettings, queryDatabase, withDatabase } from '../../support/database.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { countRuns } from './count-runs.ts';

const shipped = parse(readFileSync(new URL('../../../config/bursar.yaml', import.meta.url), 'utf8'));

/** Submits jobs until the server is killed. Returns the titles of the accepted jobs. */
async function submitUntilKilled(
  url: string,
  token: string,
  name: string,
  zips: readonly Uint8Array[],
  intervalMs: number,
  onAccepted: () => void,
) {
  const me = createCaller(url, token);
  const accepted: string[] = [];
  for (let i = 0; ; i++) {
    const title = `${name}-${i}`;
    const withZip = i % 2 === 0;
    const command = withZip ? 'sbatch run.sh' : `echo ran >> runs; sleep 0.0${i % 5}`;
    const payload = { command, title, runtime: '0.1' };
    const zip = withZip ? zips[(i / 2) % zips.length] : undefined;
    const response = await me.submit('/jobs/hpc_one/', payload, zip).catch(() => null);
    if (response === null) return accepted;
    if (response.status === 201) {
      accepted.push(title);
      onAccepted();
    } else assert.equal(response.status, 503, response.text);
    await sleep(intervalMs);
  }
}

function readStderr(data: string, jobId: string): string {
  const file = join(data, 'workspaces', jobId, 'stderr');
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
}

export interface KillOptions {
  rounds: number;
  clients: number;
  /** Delay between two submissions of a client. */
  submitIntervalMs: number;
  /** The server is killed after a random time up to this. */
  maxLifetimeMs: number;
  /** The configuration; the shipped one by default. */
  config?: () => Record<string, unknown>;
  /** Another fault to inject while the server runs. It ends before the next server starts. */
  disturb?: (round: number) => Promise<void>;
  /** Repairs what the faults broke outside Bursar, as an administrator of the system would. Called until all jobs end. */
  repair?: () => void;
  /** The refs of the jobs that a node refused to start, because a killed controller had given their ids before. */
  findRefusedRefs?: () => Set<string>;
  before?: () => Promise<void>;
  after?: () => Promise<void>;
}

interface StoredEnd {
  jobId: string;
  engineRef: string | null;
  title: string;
  outcome: string | null;
  reason: string | null;
  chargedSeconds: number;
  /** Whether its owner was told that it runs. */
  wasAnnounced: boolean;
}

async function readEnds(db: Db): Promise<StoredEnd[]> {
  const running = await db.selectFrom('events').select('job').where('kind', '=', 'job.running').execute();
  const announced = new Set(running.map(({ job }) => job));
  const rows = await db
    .selectFrom('jobs')
    .innerJoin('holds', 'holds.job', 'jobs.id')
    .innerJoin('resolutions', 'resolutions.holdId', 'holds.id')
    .select([
      'jobs.id',
      'jobId',
      'engineRef',
      'title',
      'outcome',
      'reason',
      'resolutions.timeSeconds as chargedSeconds',
    ])
    .execute();
  return rows.map(({ id, ...end }) => ({ ...end, wasAnnounced: announced.has(id) }));
}

/** Kills a real server repeatedly during submissions, then checks every job. */
export function testKilledServer(title: string, options: KillOptions): void {
  const { rounds, clients, maxLifetimeMs, submitIntervalMs } = options;
  describe(title, () => {
    const folder = mkdtempSync(join(tmpdir(), 'bursar-crash-'));
    const data = join(folder, 'data');
    const accepted: string[] = [];
    let server: ServerProcess;
    const jobs: Job[] = [];
    const logFile = join(folder, 'server.log');
    let ends: StoredEnd[] = [];
    /** How often each job has run. */
    let runs: Record<string, number> = {};
    let refusedRefs = new Set<string>();
    /**
     * Bursar submits a job again that a node refused, unless a poll has shown it as running meanwhile: then it ends without a
     * charge, and the reason says so.
     */
    const wasRefused = (end: StoredEnd) =>
      refusedRefs.has(end.engineRef ?? '') &&
      end.outcome === 'node_failed' &&
      end.wasAnnounced &&
      end.chargedSeconds === 0 &&
      runs[end.jobId] === 0;

    before(async () => {
      await options.before?.();
      const script = '#!/bin/sh\necho ran >> runs\n';
      // The small zip is stored in the database, the large one in the spool.
      const zips = [
        await makeZip({ 'run.sh': script }),
        await makeZip({ 'run.sh': script, 'data.bin': randomBytes(maxInMemoryBytes) }),
      ];
      const start = () => spawnServer({ data, logFile, ...(options.config ? { config: options.config() } : {}) });
      server = await start();
      const { userToken } = server;
      for (let round = 0; round < rounds; round++) {
        const { promise: firstAccepted, resolve: onAccepted } = Promise.withResolvers<void>();
        const submitting = Array.from({ length: clients }, (_, client) =>
          submitUntilKilled(server.url, userToken, `r${round}-c${client}`, zips, submitIntervalMs, onAccepted),
        );
        const disturbance = options.disturb?.(round);
        // In every other round the server accepts at least one job, however slow the machine is.
        if (round % 2 === 1) await firstAccepted;
        await sleep(Math.random() * maxLifetimeMs);
        await server.kill();
        accepted.push(...(await Promise.all(submitting)).flat());
        await disturbance;
        server = await start();
      }
      const repairTimer = setInterval(() => options.repair?.(), 2000);
      const me = createCaller(server.url, userToken);
      const listed = (await me.get<Job[]>('/jobs/')).body;
      try {
        for (const job of listed) jobs.push(await me.waitUntilFinished(job));
      } finally {
        clearInterval(repairTimer);
      }
      assert.equal(await server.stop(), 0);
      ends = await withDatabase(data, readEnds);
      runs = countRuns(data);
      refusedRefs = options.findRefusedRefs?.() ?? new Set();
    });

    after(async () => {
      await server.stop();
      await options.after?.();
      rmSync(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 });
      rmSync(`${data}.yaml`, { force: true });
    });

    test('accepted jobs between the kills', () => {
      assert.ok(accepted.length >= Math.floor(rounds / 2), `only ${accepted.length} jobs in ${rounds} rounds`);
    });

    test('lost no job that it accepted with 201', () => {
      const titles = new Set(jobs.map((job) => job.title));
      assert.deepEqual(
        accepted.filter((title) => !titles.has(title)),
        [],
      );
    });

    test('ran every job exactly once, and ended without a charge those that a node refused', () => {
      assert.deepEqual(runs, Object.fromEntries(ends.map((end) => [end.jobId, wasRefused(end) ? 0 : 1])));
      assert.deepEqual(ends.map(({ jobId }) => jobId).sort(), jobs.map(({ job_id }) => job_id).sort());
    });

    test('gave every job its correct outcome', () => {
      assert.deepEqual(
        jobs.filter((job) => job.end_date === null),
        [],
      );
      const failed = ends.filter((end) => end.outcome !== 'succeeded' && !wasRefused(end));
      // Prints their log lines and messages.
      for (const line of readFileSync(logFile, 'utf8').split('\n'))
        if (failed.some(({ jobId }) => line.includes(jobId))) console.log(line);
      const withStderr = failed.map((end) => ({ ...end, stderr: readStderr(data, end.jobId) }));
      assert.deepEqual(withStderr, []);
    });

    test('left no zip and no engine record, and one workspace for each job', async () => {
      assert.deepEqual(await queryDatabase(data, 'select job from inputs', []), []);
      assert.deepEqual(readdirSync(join(data, 'spool', 'incoming')), []);
      assert.deepEqual(
        readdirSync(join(data, 'spool')).filter((name) => name.endsWith('.zip')),
        [],
      );
      if (options.config === undefined) {
        const records = readdirSync(join(data, 'engines', 'hpc_one'));
        assert.deepEqual(
          records.filter((name) => !name.startsWith('.')),
          [],
        );
      }
      assert.deepEqual(readdirSync(join(data, 'workspaces')).sort(), jobs.map((job) => job.job_id).sort());
    });

    test('kept a balanced ledger, and public JSON that matches the job rows', async () => {
      const db = connectDatabase(databaseSettings(data), data);
      try {
        assert.deepEqual((await verifyLedger(db)).problems, []);
        const systems = toHpcSystems(validateConfig(options.config?.() ?? shipped, 'test'));
        for (const row of await db.selectFrom('jobs').selectAll().execute()) {
          const stages = systems.get(row.hpc)?.stages;
          assert.ok(stages);
          const { publicJson: json, title, stage, terminal, failed } = row;
          const stored = { json, title, stage, isTerminal: terminal === 1, isFailure: failed === 1 };
          assert.deepEqual(stored, publicJob(toJobRecord(row), stages));
        }
      } finally {
        await db.destroy();
      }
    });
  });
}
