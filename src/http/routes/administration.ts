import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type, { type Static, type TObject } from 'typebox';
import {
  CapGrantBody,
  MemberBody,
  PeriodBody,
  PoolGrantBody,
  ProjectBody,
  ReasonBody,
  RefundBody,
  TransferBody,
} from '../../contract/administration.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Action } from '../../domain/identity/policy.ts';
import type { AdminCommand, AdminService } from '../../services/accounting/admin-service.ts';
import type { PathScope } from '../../services/scope.ts';
import { describeRoute } from '../openapi/describe-route.ts';
import { actorOf } from '../request/authentication.ts';
import { idempotencyKey, missingKey, requestTarget, requiredKeyHeader } from '../request/idempotency-key.ts';
import { hpcParam, pathScope, projectParams, projectScope, userIdOf, userParam } from '../request/path-params.ts';
import { addResource, type Handler, type Handlers } from './resource.ts';

const tag = 'administration';

/** Grants, projects, members and the check of the ledger. */
export function administrationRoutes(app: FastifyInstance, admin: AdminService): void {
  grantRoutes(app, admin);
  projectRoutes(app, admin);

  addResource(app, '/admin/ledger/verification/', {
    GET: {
      access: { action: 'ledger.verify', reach: 'others' },
      schema: {
        ...describeRoute(tag, 'verifyLedger', 'Check all balances against the ledger entries', {
          200: Type.Ref('LedgerVerification'),
        }),
        description: 'Adds up all entries, which takes seconds in a large ledger.',
      },
      handler: () => admin.verifyLedger(),
    },
  });
}

function grantRoutes(app: FastifyInstance, admin: AdminService): void {
  const prefix = '/admin/grants/:hpc/:project_name/';
  const post = <Body extends TObject>(
    action: Action,
    operationId: string,
    summary: string,
    body: Body,
    run: (scope: Required<PathScope>, command: AdminCommand<Static<Body>>, request: FastifyRequest) => Promise<unknown>,
    options: { params?: object; response?: string } = {},
  ): Handlers => ({
    POST: {
      access: { action, reach: 'others' },
      schema: {
        ...describeRoute(tag, operationId, summary, {
          201: options.response === undefined ? Type.Array(Type.Ref('Account')) : Type.Ref(options.response),
        }),
        description:
          'Returns the accounts that have changed, or the new period. The action is recorded in the audit trail.',
        params: Type.Object({ ...projectParams, ...options.params }),
        headers: Type.Object(requiredKeyHeader),
        body,
      },
      handler: async (request, reply) => {
        const result = await run(projectScope(request), toCommand<Static<Body>>(request), request);
        reply.code(201);
        return result;
      },
    },
  });
  addResource(
    app,
    prefix,
    post('projects.write', 'changePool', 'Change the unallocated part of the pool', PoolGrantBody, admin.changePool),
  );
  addResource(
    app,
    `${prefix}transfers/`,
    post('grants.write', 'transferGrant', 'Move a grant between members', TransferBody, admin.transfer),
  );
  addResource(
    app,
    `${prefix}refunds/`,
    post('projects.write', 'refundJob', 'Refund charged time of a job', RefundBody, admin.refund),
  );
  addResource(
    app,
    `${prefix}periods/`,
    post('projects.write', 'openPeriod', 'Open a grant period', PeriodBody, admin.openPeriod, { response: 'Period' }),
  );
  addResource(
    app,
    `${prefix}members/:user_id/`,
    post(
      'grants.write',
      'changeMemberQuota',
      "Change a member's quota",
      CapGrantBody,
      (project, command, request) => {
        if (request.isManager && command.body.source !== 'pool') throw onlyFromPool();
        return admin.changeCap(project, userIdOf(request), command);
      },
      { params: userParam },
    ),
  );
}

const onlyFromPool = () =>
  new BursarError('forbidden', 'A manager cannot change the pool of the project. Send "source": "pool".');

function projectRoutes(app: FastifyInstance, admin: AdminService): void {
  const list = (operationId: string, params: object): Handler => ({
    access: { action: 'projects.read', reach: 'others' },
    schema: {
      ...describeRoute(tag, operationId, 'List projects', { 200: Type.Array(Type.Ref('Project')) }),
      description: 'All projects, including closed ones.',
      params: Type.Object({ ...params }),
    },
    handler: (request: FastifyRequest) => admin.listProjects(pathScope(request)),
  });
  addResource(app, '/admin/projects/', { GET: list('listProjects', {}) });
  addResource(app, '/admin/projects/:hpc/', {
    GET: list('listProjectsOnSystem', hpcParam),
    POST: {
      access: { action: 'projects.write', reach: 'others' },
      schema: {
        ...describeRoute(tag, 'createProject', 'Create a project', { 201: Type.Ref('Project') }),
        description: 'Every user joins it with `auto_join`; otherwise members are added.',
        params: Type.Object(hpcParam),
        headers: Type.Object(requiredKeyHeader),
        body: ProjectBody,
      },
      handler: async (request, reply) => {
        const { hpc = '' } = pathScope(request);
        const project = await admin.createProject(hpc, toCommand(request));
        return reply.code(201).send(project);
      },
    },
  });
  addResource(app, '/admin/projects/:hpc/:project_name/close/', {
    POST: {
      access: { action: 'projects.write', reach: 'others' },
      schema: {
        ...describeRoute(tag, 'closeProject', 'Close a project, so that it accepts no more jobs', {
          200: Type.Ref('Project'),
        }),
        description: 'Its submitted jobs continue, and its quotas stay readable.',
        params: Type.Object(projectParams),
        headers: Type.Object(requiredKeyHeader),
        body: ReasonBody,
      },
      handler: (request) => admin.closeProject(projectScope(request), toCommand(request)),
    },
  });
  addResource(app, '/admin/projects/:hpc/:project_name/members/', {
    GET: {
      access: { action: 'projects.read', reach: 'others' },
      schema: {
        ...describeRoute(tag, 'listMembers', 'List the members of a project', { 200: Type.Array(Type.Ref('Member')) }),
        description: 'All members, including removed and banned ones.',
        params: Type.Object(projectParams),
      },
      handler: (request) => admin.listMembers(projectScope(request)),
    },
  });
  addResource(app, '/admin/projects/:hpc/:project_name/members/:user_id/', {
    PUT: {
      access: { action: 'members.write', reach: 'others' },
      schema: {
        ...describeRoute(tag, 'setMember', 'Add, remove, ban or unban a member', { 200: Type.Ref('Member') }),
        description: 'Can be repeated. A removed or banned member cannot submit, but keeps the jobs.',
        params: Type.Object({ ...projectParams, ...userParam }),
        body: MemberBody,
      },
      handler: (request) =>
        admin.setMember(
          actorOf(request),
          projectScope(request),
          userIdOf(request),
          request.body as Static<typeof MemberBody>,
        ),
    },
  });
}

function toCommand<Body>(request: FastifyRequest): AdminCommand<Body> {
  const key = idempotencyKey(request);
  if (key === undefined) throw missingKey();
  return { actor: actorOf(request), key, target: requestTarget(request), body: request.body as Body };
}
