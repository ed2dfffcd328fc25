import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse } from 'yaml';
import { toHpcSystems } from '../../src/config/hpc-systems.ts';
import { validateConfig } from '../../src/config/validate.ts';
import { publicJob } from '../../src/contract/job.ts';
import { maxInMemoryBytes } from '../../src/files/spool/upload-buffer.ts';
import { connectDatabase } from '../../src/store/database/database.ts';
import { toJobRecord } from '../../src/store/jobs/jobs.ts';
import { verifyLedger } from '../../src/store/ledger/verify-ledger.ts';
import { makeZip } from '../files/zip/hostile-zips.ts';
import { callerOf, type Job } from '../support/api.ts';
import { databaseOf, queryDatabase, withDatabase } from '../support/database.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';

const shipped = parse(readFileSync(new URL('../../config/bursar.yaml', import.meta.url), 'utf8'));

/** Runs once for each kill: submits until the server is gone. What was answered with 201 is noted. */
async function submitUntilKilled(
  url: string,
  token: string,
  marks: string,
  name: string,
  zips: readonly Uint8Array[],
  everyMs: number,
  onAccepted: () => void,
) {
  const me = callerOf(url, token);
  const accepted: string[] = [];
  for (let i = 0; ; i++) {
    const title = `${name}-${i}`;
    const withZip = i % 2 === 0;
    const command = withZip ? `sbatch run.sh ${marks}/${title}` : `echo ran >> ${marks}/${title}; sleep 0.0${i % 5}`;
    const payload = { command, title, runtime: '0.1' };
    const zip = withZip ? zips[(i / 2) % zips.length] : undefined;
    const answer = await me.submit('/jobs/hpc_one/', payload, zip).catch(() => null);
    if (answer === null) return accepted;
    if (answer.status === 201) {
      accepted.push(title);
      onAccepted();
    } else assert.equal(answer.status, 503, answer.text);
    await sleep(everyMs);
  }
}

export interface KillOptions {
  rounds: number;
  clients: number;
  /** How long a client waits between two submissions. */
  submitIntervalMs: number;
  /** How long a server lives at the most. */
  maxLifetimeMs: number;
  /** Reasons of failures that are the system's own, and right for a job that ran. */
  acceptedReasons?: RegExp;
  /** Which systems there are; the shipped ones otherwise. */
  config?: () => Record<string, unknown>;
  /** What else happens while a server lives, and must be over before the next one starts. */
  disturb?: (round: number) => Promise<void>;
  /** Called before anything else, and after all. */
  before?: () => Promise<void>;
  after?: () => Promise<void>;
}

/** Kills a real server again and again in the middle of submissions, and looks what has become of the jobs. */
export function testKilledServer(title: string, options: KillOptions): void {
  const { rounds, clients, maxLifetimeMs: livesMs, submitIntervalMs: everyMs } = options;
  describe(title, () => {
    const folder = mkdtempSync(join(tmpdir(), 'bursar-crash-'));
    const data = join(folder, 'data');
    const marks = join(folder, 'marks');
    const accepted: string[] = [];
    let server: ServerProcess;
    let jobs: Job[] = [];
    const log = join(folder, 'server.log');
    let ends: { job_id: string; title: string; outcome: string | null; reason: string | null }[] = [];

    before(async () => {
      await options.before?.();
      mkdirSync(marks);
      const script = '#!/bin/sh\necho ran >> "$1"\n';
      // A small one is kept with its job, a larger one in the spool.
      const zips = [
        await makeZip({ 'run.sh': script }),
        await makeZip({ 'run.sh': script, 'data.bin': randomBytes(maxInMemoryBytes) }),
      ];
      const start = () => spawnServer({ data, logFile: log, ...(options.config ? { config: options.config() } : {}) });
      server = await start();
      const { userToken } = server;
      for (let round = 0; round < rounds; round++) {
        const { promise: firstAccepted, resolve: onAccepted } = Promise.withResolvers<void>();
        const submitting = Array.from({ length: clients }, (_, client) =>
          submitUntilKilled(server.url, userToken, marks, `r${round}-c${client}`, zips, everyMs, onAccepted),
        );
        const disturbed = options.disturb?.(round);
        // However slow the machine is, every other server gets as far as to accept a job.
        if (round % 2 === 1) await firstAccepted;
        await sleep(Math.random() * livesMs);
        await server.kill();
        accepted.push(...(await Promise.all(submitting)).flat());
        await disturbed;
        server = await start();
      }
      const me = callerOf(server.url, userToken);
      const listed = (await me.get<Job[]>('/jobs/')).body;
      jobs = await Promise.all(listed.map((job) => me.finished(job)));
      assert.equal(await server.stop(), 0);
      ends = await withDatabase(data, (db) =>
        db.selectFrom('jobs').select(['job_id', 'title', 'outcome', 'reason']).execute(),
      );
    });

    after(async () => {
      await server.stop();
      await options.after?.();
      rmSync(folder, { recursive: true, force: true });
      rmSync(`${data}.yaml`, { force: true });
    });

    test('has accepted jobs in spite of it', () => {
      assert.ok(accepted.length >= Math.floor(rounds / 2), `only ${accepted.length} jobs in ${rounds} rounds`);
    });

    test('lost no job that it answered with 201', () => {
      const titles = new Set(jobs.map((job) => job.title));
      assert.deepEqual(
        accepted.filter((title) => !titles.has(title)),
        [],
      );
    });

    test('ran every job exactly once', () => {
      const runs = Object.fromEntries(
        readdirSync(marks).map((title) => [title, readFileSync(join(marks, title), 'utf8').trim().split('\n').length]),
      );
      assert.deepEqual(runs, Object.fromEntries(jobs.map((job) => [job.title, 1])));
    });

    test('brought every job to its right end', () => {
      assert.deepEqual(
        jobs.filter((job) => job.end_date === null),
        [],
      );
      const failed = ends.filter(({ outcome }) => outcome !== 'succeeded');
      for (const { title, reason } of failed) console.log(`${title}: ${reason}`);
      const wrong = failed.filter(({ reason }) => !options.acceptedReasons?.test(reason ?? ''));
      // What the servers said of them tells more than what became of them.
      for (const line of readFileSync(log, 'utf8').split('\n'))
        if (wrong.some(({ job_id }) => line.includes(job_id))) console.log(line);
      assert.deepEqual(wrong, []);
    });

    test('left nothing behind: no zip, no record of an engine, one workspace a job', async () => {
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

    test('kept books that balance, and public JSON that tells what the rows tell', async () => {
      const db = connectDatabase(databaseOf(data), data);
      try {
        assert.deepEqual((await verifyLedger(db)).problems, []);
        const systems = toHpcSystems(validateConfig(options.config?.() ?? shipped, 'test'));
        for (const row of await db.selectFrom('jobs').selectAll().execute()) {
          const words = systems.get(row.hpc)?.stages;
          assert.ok(words);
          const { public_json: json, title, stage, terminal, failed } = row;
          const shown = { json, title, stage, isTerminal: terminal === 1, isFailure: failed === 1 };
          assert.deepEqual(shown, publicJob(toJobRecord(row), words));
        }
      } finally {
        await db.destroy();
      }
    });
  });
}
