import { copyFileSync, existsSync, mkdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import yazl from 'yazl';
import { defaultTuning } from '../src/composition/tuning.ts';
import { validateConfig } from '../src/config/validate.ts';
import { BursarError } from '../src/domain/errors.ts';
import { msPerDay, msPerMinute } from '../src/domain/units.ts';
import type { Engine } from '../src/engines/engine.ts';
import { enrolUser, syncProjects } from '../src/services/identity/enrolment.ts';
import { connectDatabase, openDatabase } from '../src/store/database/database.ts';
import type { Db } from '../src/store/database/handle.ts';
import { verifyLedger } from '../src/store/ledger/verify-ledger.ts';
import { findOverspending } from './check-ledger.ts';
import { applyFault, type CallFault, countAppliedFaults, resetFaults, SimulatedKill, stopFaults } from './faults.ts';
import { simulateFileSystem } from './files.ts';
import { createHosts, type Hosts } from './hosts.ts';
import { findLeftFiles, findLeftovers, findProblems, type HistoryContext, hasInput } from './invariants.ts';
import { createLeaseCheck } from './lease-check.ts';
import type { Program } from './nodes.ts';
import {
  administrator,
  faultsEndAt,
  inputName,
  inputOf,
  inputVariants,
  type Plan,
  retention,
  type Submission,
  type TimedFault,
  users,
} from './plan.ts';
import { createScheduler, type Scheduler } from './scheduler.ts';
import { simulateSqlite } from './server.ts';
import { hideDataFolder, record, resetTrace, traceHash, traceLines } from './trace.ts';
import { type Clients, createClients } from './users.ts';
import {
  installVirtualTime,
  randomBetween,
  randomNumber,
  resetTime,
  runToEnd,
  runUntil,
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
}

/** Nothing must be left to do this long after the last fault. The last try of a delivery comes after seven minutes. */
const maxSettleMs = 15 * msPerMinute;

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
          { name: 'main', grant: { timeSeconds: 1500, spaceKb: 1_000_000 } },
          {
            name: 'side',
            autoJoin: true,
            grant: { timeSeconds: 400, spaceKb: 1_000_000 },
            retentionDays: retention.keepMs / msPerDay,
          },
        ],
      },
    },
    noticeDays: retention.noticeMs / msPerDay,
  },
  'simulation',
);
const tuning = {
  ...defaultTuning,
  expiryIntervalMs: 8_000,
  eventIntervalMs: 15_000,
  delayAlarmMs: 60_000,
  missingAlarmMs: 60_000,
  webhookRetrySeconds: [1, 5, 20, 60, 120, 240],
};

installVirtualTime();
simulateFileSystem();
hideDataFolder(dataFolder);
simulateSqlite();

/** By size and variant. */
const zips = new Map<string, Buffer>();
const nameOfZip = (zip: Submission['zip'], id: number) => `${zip} ${id % inputVariants}`;
function zipOf({ zip, id }: Submission & { id: number }): Buffer {
  return zip === 'broken' ? Buffer.from('PK, but no zip') : (zips.get(nameOfZip(zip, id)) ?? Buffer.alloc(0));
}
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
    await enrolUser(db, administrator, 'administrator', Date.now());
    await db.destroy();
    // A large one is larger than what is kept in memory.
    for (const size of ['small', 'large'] as const)
      for (let variant = 0; variant < inputVariants; variant++)
        zips.set(nameOfZip(size, variant), await createZip(inputOf(size, variant) ?? Buffer.alloc(0)));
  });
}

async function createZip(content: Buffer): Promise<Buffer> {
  const zip = new yazl.ZipFile();
  zip.addBuffer(content, inputName, { mtime: new Date(0), compress: false });
  zip.end();
  return Buffer.concat(await (zip.outputStream as NodeJS.ReadableStream & { toArray(): Promise<Buffer[]> }).toArray());
}

/** Runs one history: a function of its plan. */
export async function runHistory(plan: Plan): Promise<History> {
  await prepare();
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
  const leases = createLeaseCheck(join(dataFolder, 'bursar.db'), problems);
  const hosts = createHosts(plan, {
    config,
    tuning,
    dataFolder,
    createEngine: scheduler.engineFor,
    sendWebhook: (url, headers, body) => tasks.run(undefined, () => clients.receiveWebhook(url, headers, body)),
    onChange: leases.check,
  });
  const clients = createClients(hosts.pickServer, zipOf);
  const context = { plan, db, scheduler, dataFolder, log: clients.log };
  hosts.start();
  const pending = new Map<string, Promise<void>>();
  for (const action of plan.actions) {
    const name = `${action.kind} ${action.id}`;
    const done = clients.perform(action).then(
      () => void pending.delete(name),
      (error) => void problems.push(`a user got ${(error as Error).stack}`),
    );
    // A follower never ends.
    if (action.kind !== 'follow events') pending.set(name, done);
  }
  for (const fault of plan.timedFaults) void applyLater(fault, hosts, scheduler, clients);
  void checkLedger(db, problems);

  let isSettled = false;
  settle(context, hosts, [...pending.values()]).then(
    () => {
      isSettled = true;
    },
    (error) => problems.push(`the check failed: ${(error as Error).stack}`),
  );
  const isComplete = await runUntil(() => isSettled || problems.length > 0, faultsEndAt + maxSettleMs);
  const found = await runToEnd(async () => {
    if (problems.length > 0) return [];
    if (!isComplete)
      return [
        `the history does not end: ${[...pending.keys()].join(', ')}`,
        ...(await findLeftovers(context)),
        ...(await findLeftFiles(context)),
      ];
    return await findProblems(context);
  });
  const jobs = await runToEnd(() => countJobs(db));
  const result: History = {
    seed: plan.seed,
    hash: traceHash(),
    problems: [...problems, ...clients.log.problems, ...unexpectedErrors, ...found],
    lines: traceLines(),
    faults: countAppliedFaults(),
    jobs,
    virtualSeconds: Math.round(virtualNow() / 1000),
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
    nodes: 4,
    coresPerNode: 8,
    clockOffsetMs: plan.clusterClockOffsetMs,
    listsEndsAfterMs: plan.listsEndsAfterMs,
    forgetsRecords: plan.forgetsRecords,
    reportDelayMs: () => randomBetween(0, randomNumber() < 0.05 ? 70_000 : 3000),
    onEvent: record,
    startProgram({ jobId, command, workspace }): Program {
      const { seconds, exitCode, zip, id } = findSubmission(command);
      if (!hasInput(workspace.directory, inputOf(zip, id))) problems.push(`${jobId} starts without its files`);
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
  applyFault(`${kind} ${Object.values(details).join(' ')}`, () => apply(fault, hosts, scheduler, clients));
}

/** Returns whether it changes anything. */
function apply(fault: TimedFault, hosts: Hosts, scheduler: Scheduler, clients: Clients): boolean {
  switch (fault.kind) {
    case 'pause':
      return hosts.pause(fault.server, fault.ms);
    case 'kill':
      return hosts.kill(fault.server);
    case 'clock jump':
      hosts.changeClock(fault.server, fault.ms);
      return true;
    case 'controller crash':
      return scheduler.crashController(fault.lostMs, fault.downMs, randomNumber);
    case 'node failure':
      return scheduler.failNode(randomNumber, fault.noticeMs);
    case 'full queue':
      scheduler.setFull(true);
      setTimeout(() => scheduler.setFull(false), fault.ms);
      return true;
    case 'endpoint fails':
      clients.setEndpointFailure(fault.status);
      setTimeout(() => clients.setEndpointFailure(null), fault.ms);
      return true;
    case 'lost connections':
      clients.dropConnections();
      return true;
  }
}

/** Returns when the faults are over, every user has what they asked for, and nothing is left to do. */
async function settle(context: HistoryContext, hosts: Hosts, requests: Promise<void>[]): Promise<void> {
  await sleep(faultsEndAt);
  stopFaults();
  hosts.resumeAll();
  record('the faults are over');
  await Promise.all(requests);
  record('the users have what they asked for');
  await untilEmpty(() => findLeftovers(context));
  if ((await findLeftFiles(context)).length === 0) return;
  // The servers themselves try again every hour.
  hosts.killAll();
  await untilEmpty(async () => [...(await findLeftovers(context)), ...(await findLeftFiles(context))]);
}

/** Returns once a list was empty twice. */
async function untilEmpty(list: () => Promise<string[]>): Promise<void> {
  for (let quiet = 0; quiet < 2; ) {
    await sleep(5000);
    quiet = (await list()).length === 0 ? quiet + 1 : 0;
  }
}

async function checkLedger(db: Db, problems: string[]): Promise<void> {
  for (;;) {
    await sleep(30_000);
    const { problems: found } = await verifyLedger(db);
    problems.push(...found, ...(await findOverspending(db)));
  }
}

async function countJobs(db: Db): Promise<number> {
  const { count } = await db
    .selectFrom('jobs')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return count;
}
