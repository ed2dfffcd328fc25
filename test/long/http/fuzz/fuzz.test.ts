import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { createValidZip } from '../../../http/bad-input/valid-zip.ts';
import { type ApiResponse, type Caller, createCaller, type Job } from '../../../support/api.ts';
import { loadOpenApiContract, type OpenApi } from '../../../support/contract.ts';
import { queryDatabase } from '../../../support/database.ts';
import { type DnsServer, startDnsServer } from '../../../support/dns-server.ts';
import { jobPath } from '../../../support/jobs.ts';
import { readMetric } from '../../../support/metrics.ts';
import { listFilesUnder } from '../../../support/problems.ts';
import type { TestServer } from '../../../support/server.ts';
import { spawnServer } from '../../../support/server-process.ts';
import { signIn } from '../../../support/sign-in.ts';
import { until } from '../../../support/until.ts';
import { sendJson, webhookConfig, webhookTuning } from '../../../support/webhooks.ts';
import { createResponseCheck } from './check-response.ts';
import {
  type FuzzFixture,
  type FuzzOperation,
  type FuzzRequest,
  generateRequest,
  listOperations,
} from './generate-request.ts';
import { createRandom } from './random.ts';
import { createRawClient, type FuzzResponse, formatRequest } from './raw-client.ts';

// Sends 600 changed requests to every operation of the OpenAPI document. No response may be an error of the
// server or one that the document does not describe, and nothing may be left behind. BURSAR_FUZZ_SEED and
// BURSAR_FUZZ_REQUESTS set the seed and the number of requests for longer runs. The server has its own process, because
// Node's test runner makes every promise in its process slower.

const seed = Number(process.env.BURSAR_FUZZ_SEED ?? 1);
const requestsPerOperation = Number(process.env.BURSAR_FUZZ_REQUESTS ?? 600);
const connections = 16;
/** More would not be read. */
const maxFailures = 10;

/** Fewer requests: each starts a thread that reads the whole ledger, and it has no parameters. */
const slowOperation = 'verifyLedger';
const slowShare = 0.02;
/** These keep others from succeeding, so they come last. */
const lastOperations = [
  'deleteJob',
  'deleteJobOfAnyUser',
  'disableWebhook',
  'deleteWebhook',
  'setMember',
  'openPeriod',
  'closeProject',
  'pauseSystem',
  'resumeSystem',
  'endSession',
  'endOtherSessions',
  'revokeTokensOfUser',
];
/** Not with a token alone: they need the cookie of a session, or a code that a person has confirmed. */
const interactiveOperations = new Set(['signOut', 'pollDeviceToken']);

const deviceGrant = 'urn:ietf:params:oauth:grant-type:device_code';

let dns: DnsServer;
let server: TestServer;
let admin: Caller;
let document: OpenApi;
let fixture: FuzzFixture;
let folders: string[];
let rows: Record<string, number>;
const countedTables = ['users', 'tokens', 'identities', 'jobs', 'projects', 'webhooks'];

before(async () => {
  const unlimited = 1_000_000_000;
  // A name server that knows no name: one that does not respond would be a reason for 503.
  dns = await startDnsServer(() => []);
  const { systems, ...config } = webhookConfig();
  for (const { engine } of Object.values(systems)) engine.cores = 1;
  const limits = {
    ...{ userRequests: unlimited, addressRequests: unlimited, failedSignIns: unlimited },
    webhooks: 5,
  };
  server = await spawnServer({
    config: { ...config, systems, limits, log: { level: 'warn' } },
    tuning: { ...webhookTuning, nameServers: [dns.address] },
  });
  admin = createCaller(server.url, server.adminToken);
  ({ document } = await loadOpenApiContract(server));
  fixture = await createFixture();
  folders = listDataFolder();
  rows = await countRows();
});
after(async () => {
  await server.dispose();
  await dns.close();
});

async function createFixture(): Promise<FuzzFixture> {
  const me = createCaller(server.url, server.userToken);
  const zip = await createValidZip();
  const run = async (path: string) => {
    const { body } = await me.submit(path, { command: 'sbatch run.sh', runtime: '0.1' }, zip);
    return await me.waitUntilFinished(body);
  };
  const [job, deletable] = await Promise.all([run('/jobs/hpc_one/'), run('/jobs/hpc_one/')]);
  const other = '309999';
  const url = 'http://127.0.0.1:1/webhook';
  const headers = { 'content-type': 'application/json' };
  const createWebhook = async (text: string) => {
    const body = JSON.stringify({ url: text, events: ['job.ended'] });
    const created = (await me.send('POST', '/webhooks/', headers, body)) as ApiResponse<{ id: number }>;
    return created.body.id;
  };
  const webhookId = await createWebhook(url);
  // Its owner cannot delete the other one after an administrator has disabled it.
  const deletableWebhookId = await createWebhook(`${url}/deletable`);
  const { body: delivery } = (await me.send('POST', `/webhooks/${webhookId}/test/`)) as ApiResponse<{ id: number }>;
  // Not the user who sends the requests: that one is needed until the end.
  const changeable = '309998';
  const changeableToken = await server.token(changeable);
  const tokenIdOf = async (token: string) => {
    const tokens = await createCaller(server.url, token).get<{ id: number }[]>('/me/tokens/');
    return String(tokens.body[0]?.id);
  };
  const changeableTokenId = await tokenIdOf(changeableToken);
  const deletableTokenId = await tokenIdOf(await server.token(job.owner));
  const browser = await signIn(server, job.owner);
  const sessionId = String(JSON.parse((await browser.get('/me/sessions/')).text)[0].id);
  const values = {
    hpc: 'hpc_one',
    project_name: 'proj_hpc_one_01',
    job_id: job.job_id,
    user_id: job.owner,
    webhook_id: String(webhookId),
    delivery_id: String(delivery.id),
    path: 'run.sh',
    token_id: deletableTokenId,
    session_id: sessionId,
  };
  const deletableValues: Record<string, Partial<typeof values>> = {
    deleteJob: { job_id: deletable.job_id },
    deleteJobOfAnyUser: { job_id: deletable.job_id },
    deleteWebhook: { webhook_id: String(deletableWebhookId) },
    disableUser: { user_id: changeable },
    enableUser: { user_id: changeable },
    setUserRole: { user_id: changeable },
    endSessionsOfUser: { user_id: changeable },
    revokeTokensOfUser: { user_id: changeable },
    revokeTokenOfUser: { user_id: changeable, token_id: changeableTokenId },
  };
  return {
    pathValues: (operationId) => ({ ...values, ...deletableValues[operationId] }),
    tokens: { user: server.userToken, other: await server.token(other), admin: server.adminToken },
    body: (operationId) => {
      const reason = 'a test';
      if (operationId === 'createWebhook') return { url: `${url}/created`, events: ['job.ended'] };
      if (operationId === 'changeWebhook') return { url, events: ['job.ended'] };
      if (operationId === 'startDeviceAuthorization') return { client_id: 'laptop', scope: 'jobs:read' };
      if (operationId === 'pollDeviceToken') return { grant_type: deviceGrant, device_code: 'bursar_device_x' };
      if (operationId === 'refundJob') return { job_id: job.job_id, amount: 1, reason };
      if (operationId === 'transferGrant') return { from: job.owner, to: other, resource: 'time', amount: 1, reason };
      if (operationId === 'openPeriod') return { member_seconds: 3600, reason };
      return undefined;
    },
    zip,
  };
}

/** Without the file that the storage monitor writes from time to time. */
const listDataFolder = () =>
  readdirSync(server.data)
    .filter((name) => name !== '.storage-probe')
    .sort();

async function countRows(): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const table of countedTables) {
    const [row] = await queryDatabase<{ count: number }>(server.data, `select count(*) as count from ${table}`, []);
    counts[table] = Number(row?.count);
  }
  return counts;
}

interface Exchange {
  operation: FuzzOperation;
  request: FuzzRequest;
  response: FuzzResponse;
}

/** The requests in order: those of one operation after those of another. */
function* planRequests(): Generator<{ operation: FuzzOperation; index: number }> {
  const position = ({ id }: FuzzOperation) => lastOperations.indexOf(id);
  for (const operation of listOperations(document).sort((a, b) => position(a) - position(b))) {
    const count = Math.ceil(requestsPerOperation * (operation.id === slowOperation ? slowShare : 1));
    for (let index = 0; index < count; index += 1) yield { operation, index };
  }
}

async function sendAll(onExchange: (exchange: Exchange) => void): Promise<number> {
  const plan = planRequests();
  const failures: string[] = [];
  let count = 0;
  async function sendOnConnection() {
    const client = createRawClient(server.url);
    for (const { operation, index } of plan) {
      const random = createRandom(seed, `${operation.id} ${index}`);
      // The first request of an operation is valid.
      const changes = index === 0 ? 0 : 1 + random.below(3);
      const request = generateRequest(random, operation, document, fixture, changes);
      try {
        onExchange({ operation, request, response: await client.send(request) });
      } catch (error) {
        const text = formatRequest(request).toString('latin1').slice(0, 3000);
        failures.push(`request ${index} of ${operation.id}: ${(error as Error).message}\n${text}`);
        if (failures.length >= maxFailures) break;
      }
      count += 1;
    }
    client.close();
  }
  await Promise.all(Array.from({ length: connections }, sendOnConnection));
  if (failures.length > 0) throw new Error(`BURSAR_FUZZ_SEED=${seed}\n${failures.join('\n\n')}`);
  return count;
}

test('changed requests get responses that the document describes, and leave nothing behind', async () => {
  const check = createResponseCheck(document);
  const created = {
    jobs: new Map<string, Job>(),
    projects: new Set<number>(),
    webhooks: new Set<number>(),
    tokens: new Set<number>(),
  };
  const deletedWebhooks = new Set<number>();
  const statuses = new Map<string, Set<number>>();

  const count = await sendAll(({ operation: { id }, request, response }) => {
    try {
      check(request, response);
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${response.status} ${response.text.slice(0, 1000)}`);
    }
    statuses.set(id, (statuses.get(id) ?? new Set()).add(response.status));
    const { body, status } = response as FuzzResponse<{
      id: number;
      job_id?: string;
      secret?: string;
      token?: string;
      auto_join?: boolean;
    }>;
    if (status === 201 && body?.job_id !== undefined) created.jobs.set(body.job_id, body as unknown as Job);
    if (status === 201 && body?.secret !== undefined) created.webhooks.add(body.id);
    if (status === 201 && body?.token !== undefined) created.tokens.add(body.id);
    if (status === 201 && body?.auto_join !== undefined) created.projects.add(body.id);
    if (status === 200 && id === 'deleteWebhook' && request.method === 'DELETE') deletedWebhooks.add(body.id);
  });
  console.log(`${count} requests to ${statuses.size} operations, seed ${seed}`);
  // A generator whose requests all fail at the same check would find nothing.
  const withoutSuccess = [...statuses]
    .filter(([id]) => !interactiveOperations.has(id))
    .filter(([, seen]) => ![...seen].some((status) => status < 400))
    .map(([id]) => id);
  assert.deepEqual(withoutSuccess, [], 'operations that never succeeded');

  await assertNothingIsOpen();
  await endJobs([...created.jobs.values()]);
  assert.deepEqual(await countRows(), {
    ...rows,
    jobs: (rows.jobs ?? 0) + created.jobs.size,
    tokens: (rows.tokens ?? 0) + created.tokens.size,
    projects: (rows.projects ?? 0) + created.projects.size,
    webhooks: (rows.webhooks ?? 0) + created.webhooks.size - deletedWebhooks.size,
  });
  await assertNoFilesLeft();
  await assertNothingReserved();
  assert.doesNotMatch(server.log(), /^\{"level":[56]0/m, 'errors in the log');
});

async function assertNothingIsOpen(): Promise<void> {
  for (const kind of ['upload', 'download', 'log_follower', 'event_listener']) {
    const readOpen = () => readMetric(server.url, `bursar_open_requests{kind="${kind}"}`);
    await until(`no ${kind} is open`, async () => (await readOpen()) === 0 || undefined);
  }
}

/** Cancels the jobs that were accepted, and waits for their ends. */
async function endJobs(jobs: readonly Job[]): Promise<void> {
  for (const job of jobs) {
    const { status, text } = await sendJson(admin, 'POST', `/admin${jobPath(job)}cancel/`, { reason: 'end of a test' });
    assert.ok(status === 200 || status === 202, text);
  }
  await until('all jobs have ended', async () => {
    const { body } = await admin.get<Job[]>('/admin/jobs/?terminal=false');
    return body.length === 0 || undefined;
  });
}

async function assertNoFilesLeft(): Promise<void> {
  await until('no upload is left', () => listFilesUnder(server, 'spool').length === 0 || undefined);
  assert.deepEqual(listDataFolder(), folders);
  const known = await queryDatabase<{ job_id: string }>(server.data, 'select job_id from jobs', []);
  const jobIds = new Set(known.map(({ job_id }) => job_id));
  const workspaces = readdirSync(join(server.data, 'workspaces'));
  assert.deepEqual(
    workspaces.filter((name) => !jobIds.has(name)),
    [],
    'workspaces without a job',
  );
}

async function assertNothingReserved(): Promise<void> {
  const held = await queryDatabase(server.data, 'select id, held from accounts where held <> 0', []);
  assert.deepEqual(held, [], 'accounts with reservations');
  const { text } = await admin.get('/admin/ledger/verification/');
  assert.match(text, /"balanced":true/);
  const claims = await queryDatabase(server.data, 'select * from idempotency where claimed_by is not null', []);
  assert.deepEqual(claims, [], 'claimed keys without a request');
}
