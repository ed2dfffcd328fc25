import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { verifyLedger } from '../../src/store/ledger/verify-ledger.ts';
import { type AccountingFixture, defaultProject, defaultProjectPath } from './accounting-fixture.ts';
import type { ApiResponse, Caller, Job, Quota } from './api.ts';
import { withDatabase } from './database.ts';
import { releaseJob, waitForGoScript } from './jobs.ts';
import { assertProblem, type ProblemBody } from './problems.ts';
import type { TestServer } from './server.ts';
import { until } from './until.ts';

export interface Movement {
  id: number;
  at: string;
  kind: string;
  change: number;
  balance: number;
  used: number;
  job_id: string | null;
  actor: string;
  reason: string;
}

export interface AccountStatement {
  unit: string;
  opening_balance: number;
  closing_balance: number;
  movements: Movement[];
}

export interface Statement {
  user: string;
  project_hpc: string;
  project_name: string;
  from: string;
  to: string;
  time: AccountStatement & { burn_rate_per_day: number; runs_out_at: string | null };
  space: AccountStatement;
}

export interface Account {
  user: string | null;
  resource: 'time' | 'space';
  unit: string;
  granted: number;
  held: number;
  used: number;
  available: number;
}

export interface Quote {
  project_hpc: string;
  project_name: string;
  runtime: number;
  cost: number;
  accepted: boolean;
  reason: string | null;
  binding_account: string | null;
  time_left: number;
  longest_runtime: number;
}

export interface LedgerVerification {
  balanced: boolean;
  accounts: number;
  entries: number;
  problems: string[];
}

/** A script that ignores SIGTERM: the job runs past its time limit until it is killed. */
export const ignoresTermScript = 'trap \'\' TERM; while [ -d "$PWD" ]; do sleep 0.1; done';

/** A script that creates the file `begun`, and then waits for `releaseJob`. */
export const markBegunScript = `touch begun; ${waitForGoScript}`;

/** Waits for the first command of a job. The stage RUNNING comes earlier, and a job without a command run is not charged. */
export async function waitUntilBegun({ server }: Pick<AccountingFixture, 'server'>, job: Job): Promise<void> {
  const file = join(server.data, 'workspaces', job.job_id, 'files', 'begun');
  await until(`the first command of ${job.job_id}`, () => (existsSync(file) ? true : undefined));
}

/** Posts as an administrator, with a new idempotency key unless one is given. */
export async function postAsAdmin<T = Account[]>(
  admin: Caller,
  path: string,
  body: unknown,
  key: string = randomUUID(),
): Promise<ApiResponse<T>> {
  const headers = { 'content-type': 'application/json', 'idempotency-key': key };
  return (await admin.send('POST', path, headers, JSON.stringify(body))) as ApiResponse<T>;
}

/** Posts as an administrator, and asserts the status 201. */
export async function postCreated<T = Account[]>(admin: Caller, path: string, body: unknown, key?: string): Promise<T> {
  const response = await postAsAdmin<T>(admin, path, body, key);
  assert.equal(response.status, 201, response.text);
  return response.body;
}

interface Change {
  resource?: 'time' | 'space';
  source?: 'new' | 'pool';
  project?: string;
}

export function topUp(admin: Caller, user: string, amount: number, change: Change = {}): Promise<Account[]> {
  const { project = defaultProjectPath, ...rest } = change;
  const body = { kind: 'top_up', resource: 'time', amount, reason: 'more is needed', ...rest };
  return postCreated(admin, `/admin/grants/${project}/members/${user}/`, body);
}

export function withdraw(admin: Caller, user: string, amount: number, change: Change = {}): Promise<Account[]> {
  const { project = defaultProjectPath, ...rest } = change;
  const body = { kind: 'withdraw', resource: 'time', amount, reason: 'less is needed', ...rest };
  return postCreated(admin, `/admin/grants/${project}/members/${user}/`, body);
}

/** Withdraws so much that exactly the given amounts are left. */
export async function withdrawDownTo(
  admin: Caller,
  user: string,
  { time, space }: { time?: number; space?: number },
  project = defaultProjectPath,
): Promise<void> {
  const { body: quota } = await admin.get<Quota>(`/admin/quotas/${user}/${project}/`);
  if (time !== undefined) await withdraw(admin, user, quota.time_left - time, { project });
  if (space !== undefined) await withdraw(admin, user, quota.space_left - space, { project, resource: 'space' });
}

/** Creates a project in which each of the members has the grant. Returns `hpc/name`. */
export async function createProject(
  admin: Caller,
  name: string,
  members: readonly string[],
  grant: { timeSeconds: number; spaceKb?: number },
  hpc = 'hpc_one',
): Promise<string> {
  const { timeSeconds: grant_time_seconds, spaceKb: grant_space_kb = 1000 } = grant;
  const body = { name, grant_time_seconds, grant_space_kb, reason: 'for a test' };
  await postCreated(admin, `/admin/projects/${hpc}/`, body);
  for (const member of members) await setMember(admin, `${hpc}/${name}`, member, 'active', 'joins');
  return `${hpc}/${name}`;
}

export async function setMember(
  admin: Caller,
  project: string,
  user: string,
  status: string,
  reason: string,
): Promise<ApiResponse<{ user: string; status: string; reason: string; since: string }>> {
  const body = JSON.stringify({ status, reason });
  const path = `/admin/projects/${project}/members/${user}/`;
  const response = await admin.send('PUT', path, { 'content-type': 'application/json' }, body);
  return response as ApiResponse<{ user: string; status: string; reason: string; since: string }>;
}

/** Submits a job, and asserts that it is accepted. */
export async function submitJob(
  caller: Caller,
  payload: Record<string, unknown>,
  zip?: Uint8Array,
  project = defaultProjectPath,
): Promise<Job> {
  const { status, body, text } = await caller.submit(`/jobs/${project}/`, payload, zip);
  assert.equal(status, 201, text);
  return body;
}

/** Submits a job and waits for its end. */
export async function runJob(
  caller: Caller,
  payload: Record<string, unknown>,
  zip?: Uint8Array,
  project = defaultProjectPath,
): Promise<Job> {
  return await caller.waitUntilFinished(await submitJob(caller, payload, zip, project));
}

/**
 * Runs a job that is charged for 10,000 cores, many more than it requested, as on a cluster that allocates whole nodes: the
 * only way in which a job costs more than its hold.
 */
export async function runOverrun(
  { server, tamper }: Pick<AccountingFixture, 'server' | 'tamper'>,
  caller: Caller,
  payload: Record<string, unknown>,
  project = defaultProjectPath,
): Promise<Job> {
  const job = await submitJob(caller, { command: markBegunScript, ...payload }, undefined, project);
  await waitUntilBegun({ server }, job);
  await tamper('update jobs set units = 10000 where id = ?', job.id);
  releaseJob(server, job);
  return await caller.waitUntilFinished(job);
}

export async function getStatement(caller: Caller, project = defaultProjectPath, query = ''): Promise<Statement> {
  const { status, body, text } = await caller.get<Statement>(`/quotas/${project}/statement/${query}`);
  assert.equal(status, 200, text);
  return body;
}

/** Lists the movements of a job on its owner's account, in order. */
export async function listJobMovements(
  caller: Caller,
  job: Job,
  resource: 'time' | 'space' = 'time',
  project = defaultProjectPath,
): Promise<Movement[]> {
  const { movements } = (await getStatement(caller, project))[resource];
  return movements.filter((movement) => movement.job_id === job.job_id);
}

/**
 * Returns the movements of time of a finished job: its hold, and its settlement. The hold is released in full, and what was
 * used is charged.
 */
export async function getSettlement(
  caller: Caller,
  job: Job,
  project = defaultProjectPath,
): Promise<{ held: number; settled: Movement }> {
  const [reserved, released, charged, ...others] = await listJobMovements(caller, job, 'time', project);
  assert.deepEqual(others, []);
  assert.ok(reserved && released);
  assert.deepEqual([reserved.kind, released.kind], ['reserve', 'release']);
  assert.deepEqual([released.change, released.used], [-reserved.change, 0]);
  return { held: -reserved.change, settled: charged ?? released };
}

/** Reads the caller's quota in the default project of the tests. */
export function getQuota(caller: Caller): Promise<Quota> {
  return caller.quota(defaultProject.hpc, defaultProject.project);
}

/** The sign of the change of each kind that always has the same, as on the statement of a bank. A change can be 0. */
const signs: Record<string, number> = { grant: 1, top_up: 1, refund: 1, withdraw: -1, expire: -1 };

/** Asserts that the movements of a statement sum up to its balances, and these to the quota. */
export async function assertStatementAddsUp(caller: Caller, project = defaultProjectPath): Promise<Statement> {
  const statement = await getStatement(caller, project);
  for (const resource of ['time', 'space'] as const) {
    const { opening_balance, closing_balance, movements } = statement[resource];
    let balance = opening_balance;
    for (const movement of movements) {
      balance = Number((balance + movement.change).toFixed(3));
      assert.equal(movement.balance, balance, `${resource} after ${JSON.stringify(movement)}`);
      if (signs[movement.kind] !== undefined)
        assert.equal(Math.sign(movement.change), signs[movement.kind], `${resource} ${JSON.stringify(movement)}`);
      assert.match(movement.actor, /\S/);
      assert.match(movement.reason, /\S/);
    }
    assert.equal(closing_balance, balance, resource);
  }
  const [hpc = '', name = ''] = project.split('/');
  const { time_left, space_left } = await caller.quota(hpc, name);
  assert.equal(time_left, Math.max(0, statement.time.closing_balance));
  assert.equal(space_left, Math.max(0, statement.space.closing_balance));
  return statement;
}

/** Asks the server, which verifies in a thread. From the sources, loading the modules again takes it 0.4 s of CPU time. */
export async function getLedgerVerification(admin: Caller): Promise<LedgerVerification> {
  return (await admin.get<LedgerVerification>('/admin/ledger/verification/')).body;
}

/** Verifies the ledger in this thread. */
export async function verifyLedgerOf({ data }: Pick<TestServer, 'data'>): Promise<LedgerVerification> {
  return await withDatabase(data, verifyLedger);
}

export async function assertLedgerBalances(server: Pick<TestServer, 'data'>): Promise<LedgerVerification> {
  const verification = await verifyLedgerOf(server);
  assert.deepEqual(verification.problems, []);
  assert.equal(verification.balanced, true);
  return verification;
}

/** Asserts a `quota_exceeded` problem with these members. */
export function assertQuotaExceeded(response: ApiResponse, members: Record<string, unknown>): ProblemBody {
  const problem = assertProblem(response, { status: 403, code: 'quota_exceeded' });
  for (const [name, value] of Object.entries(members))
    assert.equal(problem[name], value, `${name} in ${response.text}`);
  return problem;
}
