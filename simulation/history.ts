import { copyFileSync, existsSync, mkdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import yazl from 'yazl';
import { validateConfig } from '../src/config/validate.ts';
import { BursarError } from '../src/domain/errors.ts';
import type { Engine } from '../src/engines/engine.ts';
import { enrolUser, syncProjects } from '../src/services/identity/enrolment.ts';
import { connectDatabase, openDatabase } from '../src/store/database/database.ts';
import type { Db } from '../src/store/database/handle.ts';
import { verifyLedger } from '../src/store/ledger/verify-ledger.ts';
import {
  type CallFault,
  callCounts,
  countAppliedFaults,
  recordFault,
  resetFaults,
  SimulatedKill,
  stopFaults,
} from './faults.ts';
import { simulateFileSystem } from './files.ts';
import { createHosts, type Hosts } from './hosts.ts';
import { findLeftovers, findOverspending, findProblems, type HistoryContext } from './invariants.ts';
import type { Program } from './nodes.ts';
import { faultsEndAt, type Plan, type Submission, type TimedFault, users } from './plan.ts';
import { createScheduler, type Scheduler } from './scheduler.ts';
import { simulateSqlite } from './server.ts';
import { hideDataFolder, record, resetTrace, traceHash, traceLines } from './trace.ts';
import { type Clients, createClients } from './users.ts';
import {
  installVirtualTime,
  randomBetween,
  randomNumber,
  realNow,
  resetTime,
  runToEnd,
  runUntil,
  type SimulatedProcess,
  sleep,
  tasks,
  virtualNow,
} from './virtual-time.ts';

export interface History {
  seed: number;
  /** Of the trace: the same seed always has the same one. */
  hash: string;
  problems: string[];
  lines: string[];
  faults: number;
  jobs: number;
  virtualSeconds: number;
  wallMs: number;
  calls: ReadonlyMap<string, number>;
}

/** Every job must have ended this long after the last fault. */
const maxSettleMs = 3_600_000;
const ledgerCheckMs = 30_000;

/** In memory, where there is such a folder: syncing a disk would take most of the time. */
const memory = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
const root = join(memory, `simulated-bursar-${process.pid}`);
const dataFolder = join(root, 'data');
const template = join(root, 'template.db');

const config = validateConfig(
  {
    data: dataFolder,
    systems: {
      sys: {
        kind: 'batch',
        isolation: 'none',
        // So little that a tenth of the submissions is refused.
        projects: [
          { name: 'main', grant: { timeSeconds: 1000, spaceKb: 1_000_000 } },
          { name: 'side', autoJoin: true, grant: { timeSeconds: 250, spaceKb: 1_000_000 }, retentionDays: 0.002 },
        ],
      },
    },
    retention: { everySeconds: 30, noticeDays: 0.001 },
    ledger: { calendarSeconds: 30 },
    events: { checkSeconds: 5 },
    webhooks: { retrySeconds: [1, 5, 20, 60, 120, 240] },
  },
  'simulation',
);

installVirtualTime();
simulateFileSystem();
hideDataFolder(dataFolder);
simulateSqlite();

const zips: Record<Submission['zip'], Buffer> = {
  none: Buffer.alloc(0),
  small: Buffer.alloc(0),
  large: Buffer.alloc(0),
};
let isPrepared = false;
let unexpectedErrors: string[] = [];

function reset(seed: number, faults: readonly CallFault[], onPowerFailure = () => {}): void {
  resetTime(seed);
  resetTrace();
  resetFaults(faults, onPowerFailure);
}

/** Creates the database and the zips that all histories of this process begin with. */
async function prepare(): Promise<void> {
  if (isPrepared) return;
  isPrepared = true;
  reset(0, []);
  mkdirSync(root, { recursive: true, mode: 0o700 });
  process.on('exit', () => rmSync(root, { recursive: true, force: true }));
  process.on('unhandledRejection', (error) => {
    if (!(error instanceof SimulatedKill)) unexpectedErrors.push(`unhandled: ${(error as Error).stack}`);
  });
  await runToEnd(async () => {
    const db = await openDatabase({ ...config.database, url: `sqlite:${template}` }, root);
    await syncProjects(db, config, Date.now());
    for (const user of users) await enrolUser(db, user, 'user', Date.now());
    await enrolUser(db, '9', 'administrator', Date.now());
    await db.destroy();
    zips.small = await createZip(100);
    // Larger than what is kept in memory.
    zips.large = await createZip(80_000);
  });
}

/** The file of every zip. */
const inputName = 'data';

async function createZip(bytes: number): Promise<Buffer> {
  const zip = new yazl.ZipFile();
  const content = Buffer.from(Array.from({ length: bytes }, () => Math.floor(randomNumber() * 256)));
  zip.addBuffer(content, inputName, { mtime: new Date(0), compress: false });
  zip.end();
  return Buffer.concat(await (zip.outputStream as NodeJS.ReadableStream & { toArray(): Promise<Buffer[]> }).toArray());
}

/** Runs one history: a function of its plan. */
export async function runHistory(plan: Plan): Promise<History> {
  await prepare();
  const startedAt = realNow();
  rmSync(dataFolder, { recursive: true, force: true });
  mkdirSync(dataFolder, { mode: 0o700 });
  copyFileSync(template, join(dataFolder, 'bursar.db'));
  unexpectedErrors = [];
  reset(plan.seed, plan.callFaults, () => {
    const lostMs = randomNumber() < 0.3 ? 0 : randomBetween(0, 10_000);
    tasks.run(undefined, () => scheduler.crashController(lostMs, randomBetween(500, 30_000), randomNumber));
  });

  const db = connectDatabase(config.database, dataFolder);
  const problems: string[] = [];
  const scheduler = createSimulatedScheduler(plan, problems);
  const leases = createLeaseCheck(problems);
  const hosts = createHosts(plan, {
    config,
    dataFolder,
    createEngine: scheduler.engineFor,
    sendWebhook: (url, headers, body) => tasks.run(undefined, () => clients.receiveWebhook(url, headers, body)),
    onChange: leases.check,
  });
  const clients = createClients(hosts.pickServer, zips);
  const context = { plan, db, scheduler, dataFolder, log: clients.log };
  hosts.start();
  const performed = plan.actions.map((action) => ({ action, done: clients.perform(action) }));
  for (const { done } of performed) done.catch((error) => problems.push(`a user got ${(error as Error).stack}`));
  for (const fault of plan.timedFaults) void applyLater(fault, hosts, scheduler, clients);
  void checkLedger(db, problems);

  let isSettled = false;
  const settled = settle(
    context,
    hosts,
    performed.filter(({ action }) => action.kind !== 'follow events').map(({ done }) => done),
  );
  settled.then(
    () => {
      isSettled = true;
    },
    (error) => problems.push(`the check failed: ${(error as Error).stack}`),
  );
  const isComplete = await runUntil(() => isSettled || problems.length > 0, faultsEndAt + maxSettleMs);
  const found = await runToEnd(async () => {
    if (!isComplete) return await findLeftovers(context);
    return problems.length > 0 ? [] : await findProblems(context);
  });
  const result: History = {
    seed: plan.seed,
    hash: traceHash(),
    problems: [...problems, ...unexpectedErrors, ...found],
    lines: traceLines(),
    faults: countAppliedFaults(),
    jobs: clients.log.submissions.length,
    virtualSeconds: Math.round(virtualNow() / 1000),
    wallMs: Math.round(realNow() - startedAt),
    calls: callCounts(),
  };
  hosts.killAll();
  leases.close();
  reset(0, []);
  await runToEnd(() => db.destroy());
  return result;
}

/** The cluster belongs to no server: its tasks go on when a server is killed. */
function createSimulatedScheduler(plan: Plan, problems: string[]): Scheduler & { engineFor(): Engine } {
  const actions = new Map(plan.actions.map((action) => [action.id, action]));
  const findSubmission = (command: unknown) => {
    const [, id] = /run (\d+)/.exec(JSON.stringify(command)) ?? [];
    const action = actions.get(Number(id));
    if (action?.kind !== 'submit') throw new Error(`no action for ${JSON.stringify(command)}`);
    return action;
  };
  const scheduler = createScheduler({
    cores: 32,
    clockOffsetMs: plan.clusterClockOffsetMs,
    listsEndsAfterMs: plan.listsEndsAfterMs,
    forgetsRecords: plan.forgetsRecords,
    reportDelayMs: () => randomBetween(0, randomNumber() < 0.05 ? 70_000 : 3000),
    onEvent: record,
    startProgram({ jobId, command, workspace }): Program {
      const { seconds, exitCode, zip } = findSubmission(command);
      const hasInput = existsSync(join(workspace.directory, inputName));
      if (hasInput !== (zip !== 'none'))
        problems.push(`${jobId} starts ${hasInput ? 'with foreign' : 'without its'} files`);
      const { promise, resolve } = Promise.withResolvers<number>();
      setTimeout(() => resolve(exitCode), seconds * 1000);
      return { ended: promise, stop: () => resolve(137) };
    },
  });
  function engineFor(): Engine {
    const engine = scheduler.createEngine();
    const outside = Object.entries(engine).map(([name, method]) => [
      name,
      (...args: unknown[]) => tasks.run(undefined, () => (method as (...args: unknown[]) => unknown)(...args)),
    ]);
    return {
      ...(Object.fromEntries(outside) as unknown as Engine),
      // Like Slurm, it sends no notifications.
      onChange: () => undefined,
      async submit(job, signal, options) {
        if (findSubmission(job.command).isRefused) throw new BursarError('job_refused', 'no such partition');
        return await tasks.run(undefined, () => engine.submit(job, signal, options));
      },
    };
  }
  return { ...scheduler, engineFor };
}

async function applyLater(fault: TimedFault, hosts: Hosts, scheduler: Scheduler, clients: Clients): Promise<void> {
  await sleep(fault.at);
  const { at: _at, kind, ...details } = fault;
  recordFault(`${kind} ${Object.values(details).join(' ')}`);
  switch (fault.kind) {
    case 'pause':
      return hosts.pause(fault.server, fault.ms);
    case 'kill':
      return hosts.kill(fault.server);
    case 'clock jump':
      return hosts.changeClock(fault.server, fault.ms);
    case 'controller crash':
      return scheduler.crashController(fault.lostMs, fault.downMs, randomNumber);
    case 'node failure':
      return scheduler.failNode(randomNumber, fault.noticeMs);
    case 'full queue':
      scheduler.setFull(true);
      await sleep(fault.ms);
      return scheduler.setFull(false);
    case 'endpoint down':
      clients.setEndpointDown(true);
      await sleep(fault.ms);
      return clients.setEndpointDown(false);
    case 'lost connections':
      return clients.dropConnections();
  }
}

/** Returns when the faults are over, every user has what they asked for, and nothing is left to do. */
async function settle(context: HistoryContext, hosts: Hosts, performed: Promise<void>[]): Promise<void> {
  await sleep(faultsEndAt);
  stopFaults();
  hosts.resumeAll();
  record('the faults are over');
  await Promise.allSettled(performed);
  record('the users have what they asked for');
  for (let quiet = 0; quiet < 2; ) {
    await sleep(5000);
    const left = await findLeftovers(context);
    quiet = left.length === 0 ? quiet + 1 : 0;
  }
}

async function checkLedger(db: Db, problems: string[]): Promise<void> {
  for (;;) {
    await sleep(ledgerCheckMs);
    const { problems: found } = await verifyLedger(db);
    problems.push(...found, ...(await findOverspending(db)));
  }
}

/** Returns a check that background work changes jobs only while its server holds a lease. */
function createLeaseCheck(problems: string[]) {
  // Without Kysely, because it is called often.
  const database = new Sqlite(join(dataFolder, 'bursar.db'), { readonly: true });
  const holders = database.prepare('select holder from leases').pluck();
  return {
    check(process: SimulatedProcess, change: string) {
      if (tasks.run(undefined, () => holders.all()).includes(process.name)) return;
      problems.push(`${process.name} has changed a job without a lease: ${change.slice(0, 80)}`);
    },
    close: () => database.close(),
  };
}
