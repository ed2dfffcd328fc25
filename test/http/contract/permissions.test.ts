import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { allScopes, type SiteRole, type TokenScope } from '../../../src/domain/identity/policy.ts';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import type { OpenApi, Operation, Problem } from '../../support/contract.ts';
import { bashZip } from '../../support/jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';

// Every operation of the OpenAPI document, for every role, with resources of one's own, of others, and unknown ones.

const project = 'hpc_two/proj_hpc_two_01';
type Role = SiteRole | 'manager';
const roles: readonly Role[] = ['user', 'manager', 'auditor', 'operator', 'administrator'];

const readers = 'auditor operator administrator';
const readersAndManagers = `manager ${readers}`;
/** The roles that may use an operation on resources of others. Written by hand: the policy must say the same. */
const administration: Record<string, string> = {
  listJobsOfAllUsers: readersAndManagers,
  listJobSummariesOfAllUsers: readersAndManagers,
  getJobOfAnyUser: readersAndManagers,
  deleteJobOfAnyUser: 'manager administrator',
  cancelJobOfAnyUser: 'manager operator administrator',
  getJobTimelineOfAnyUser: readersAndManagers,
  getJobLogOfAnyUser: 'auditor administrator',
  listJobFilesOfAnyUser: 'manager auditor administrator',
  getJobFileOfAnyUser: 'auditor administrator',
  listQuotasOfAllUsers: readersAndManagers,
  listQuotasOfUser: readers,
  listQuotasOnSystemOfUser: readers,
  getQuotaOfUser: readersAndManagers,
  listAccountsOfUser: readers,
  listAccountsOfProject: readersAndManagers,
  getStatementOfUser: readersAndManagers,
  getUsageOfUser: readers,
  getUsageOfAllUsers: readers,
  listEventsOfUser: readers,
  listWebhooksOfUser: readers,
  listWebhooksOfAllUsers: readers,
  disableWebhook: 'operator administrator',
  enableWebhook: 'operator administrator',
  listSystemsForAdministrators: readers,
  getSystemForAdministrators: readers,
  pauseSystem: 'operator administrator',
  resumeSystem: 'operator administrator',
  listProjects: readers,
  listProjectsOnSystem: readers,
  createProject: 'administrator',
  closeProject: 'administrator',
  listMembers: readersAndManagers,
  setMember: 'administrator',
  changePool: 'administrator',
  transferGrant: 'manager administrator',
  refundJob: 'administrator',
  openPeriod: 'administrator',
  changeMemberQuota: 'manager administrator',
  listUsers: readers,
  getUser: readers,
  disableUser: 'administrator',
  enableUser: 'administrator',
  setUserRole: 'administrator',
  listTokensOfUser: readers,
  revokeTokenOfUser: 'operator administrator',
  revokeTokensOfUser: 'operator administrator',
  listSessionsOfUser: readers,
  endSessionsOfUser: 'operator administrator',
  listAuditRecords: 'auditor administrator',
  verifyLedger: 'auditor administrator',
};

/** Lists that managers of a project may read if the query names it. */
const managedByQuery = ['/admin/jobs/', '/admin/job-summaries/', '/admin/quotas/'];

/** The scope that a token needs, by the tag of the operation: for reads, and for everything else. */
const scopesByTag: Record<string, readonly [TokenScope | null, TokenScope | null]> = {
  jobs: ['jobs:read', 'jobs:write'],
  files: ['jobs:read', 'jobs:write'],
  quotas: ['quotas:read', 'quotas:read'],
  events: ['events:read', 'events:read'],
  webhooks: ['events:read', 'webhooks:write'],
  systems: [null, null],
  account: [null, null],
  administration: ['admin:read', 'admin:write'],
};

interface Case {
  id: string;
  method: string;
  template: string;
  isAdministration: boolean;
  scope: TokenScope | null;
}

describe('permissions', () => {
  let server: TestServer;
  let cases: Case[];
  const callers = new Map<Role, Caller>();
  const jobs = new Map<Role, Job>();

  before(async () => {
    server = await startServer();
    const { body: document } = await createCaller(server.url, null).get<OpenApi>('/openapi.json');
    cases = Object.entries(document.paths).flatMap(([template, operations]) =>
      Object.entries(operations).flatMap(([method, operation]) => toCase(template, method.toUpperCase(), operation)),
    );
    const admin = createCaller(server.url, server.adminToken);
    for (const [index, role] of roles.entries()) {
      const user = String(400_001 + index);
      const siteRole = role === 'manager' ? 'user' : role;
      callers.set(role, createCaller(server.url, await server.token(user, { role: siteRole, scopes: allScopes })));
      if (role === 'manager') {
        const body = JSON.stringify({ status: 'active', role: 'manager', reason: 'leads the group' });
        const path = `/admin/projects/${project}/members/${user}/`;
        assert.equal((await admin.send('PUT', path, { 'content-type': 'application/json' }, body)).status, 200);
      }
      jobs.set(role, await submitJob(callerOf(role)));
    }
  });
  after(() => server.dispose());

  const callerOf = (role: Role) => callers.get(role) as Caller;

  async function submitJob(caller: Caller): Promise<Job> {
    const { body } = await caller.submit('/jobs/hpc_two/', { tool: 'BASH' }, bashZip);
    return await caller.waitUntilFinished(body);
  }

  async function request(
    caller: Caller,
    { id, method, template }: Case,
    jobId: string,
  ): Promise<[number, string, string]> {
    const path = template
      .replace('{hpc}', 'hpc_two')
      .replace('{project_name}', 'proj_hpc_two_01')
      .replace('{job_id}', jobId)
      .replace('{user_id}', '400001')
      .replace(/\{\w+\}/, '999999');
    const query = managedByQuery.includes(template)
      ? '?hpc=hpc_two&project_name=proj_hpc_two_01'
      : id === 'deleteJobOfAnyUser'
        ? '?reason=because+of+a+test'
        : '';
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json',
      'idempotency-key': crypto.randomUUID(),
    };
    // Other bodies are refused, after the permission was checked.
    const json = id === 'cancelJobOfAnyUser' ? '{"reason": "because of a test"}' : '{';
    const {
      status,
      body,
      headers: responseHeaders,
    } = await caller.send(method, path + query, headers, method === 'GET' ? undefined : json);
    return [status, (body as Problem | undefined)?.code ?? '', responseHeaders.get('www-authenticate') ?? ''];
  }

  test('every operation has a decision', () => {
    const undecided = cases.filter(({ id, isAdministration }) => isAdministration && administration[id] === undefined);
    assert.deepEqual(undecided, []);
    const ids = new Set(cases.map(({ id }) => id));
    assert.deepEqual(
      Object.keys(administration).filter((id) => !ids.has(id)),
      [],
    );
  });

  for (const role of roles) {
    test(`of the role ${role}`, async () => {
      for (const item of cases) {
        const isAllowed = !item.isAdministration || administration[item.id]?.split(' ').includes(role);
        const jobIds = [
          ['own', jobs.get(role)?.job_id ?? ''],
          ['of another user', jobs.get(role === 'user' ? 'auditor' : 'user')?.job_id ?? ''],
          ['unknown', 'UNKNOWN'],
        ] as const;
        for (const [whose, jobId] of item.template.includes('{job_id}') ? jobIds : jobIds.slice(0, 1)) {
          const [status, code] = await request(callerOf(role), item, jobId);
          const what = `${item.id} (${whose} job): ${status} ${code}`;
          if (!isAllowed) assert.deepEqual([status, code], [403, 'forbidden'], what);
          else assert.ok(status !== 401 && status !== 403 && status < 500, what);
          if (isAllowed && item.template.includes('{job_id}') && !isSeen(item, whose)) assert.equal(status, 404, what);
        }
      }
    });
  }

  /** Somebody else's job is unknown on the paths for one's own. */
  const isSeen = ({ isAdministration }: Case, whose: string) =>
    whose === 'own' || (whose === 'of another user' && isAdministration);

  test('of a token end with its scopes', async () => {
    const role = 'administrator';
    const none = createCaller(server.url, await server.token('300001', { role, scopes: [] }));
    const callersByScope = new Map<TokenScope | null, { without: Caller; only: Caller }>([
      [null, { without: none, only: none }],
    ]);
    for (const scope of allScopes) {
      const without = await server.token('300001', { role, scopes: allScopes.difference(new Set([scope])) });
      const only = await server.token('300001', { role, scopes: [scope] });
      callersByScope.set(scope, { without: createCaller(server.url, without), only: createCaller(server.url, only) });
    }
    for (const item of cases) {
      const { scope } = item;
      const { without, only } = callersByScope.get(scope) ?? assert.fail();
      const [status, code] = await request(only, item, 'UNKNOWN');
      assert.notEqual(status, 403, `${item.id} with only ${scope}: ${status} ${code}`);
      if (scope === null) continue;
      const [refusal, refusalCode, challenge] = await request(without, item, 'UNKNOWN');
      const what = `${item.id} without ${scope}: ${refusal} ${refusalCode}`;
      assert.deepEqual([refusal, refusalCode], [403, 'insufficient_scope'], what);
      assert.ok(challenge.endsWith(`error="insufficient_scope", scope="${scope}"`), challenge);
    }
  });
});

function toCase(
  template: string,
  method: string,
  { operationId: id = '', tags: [tag = ''] = [], security }: Operation,
) {
  if (security !== undefined) return [];
  const [read, write] = scopesByTag[tag] ?? [null, null];
  const scope = method === 'GET' ? read : write;
  return [{ id, method, template, isAdministration: tag === 'administration', scope }];
}
