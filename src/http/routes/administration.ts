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
import type { AdminCommand, AdminService } from '../../services/accounting/admin-service.ts';
import type { AccessService } from '../../services/identity/access.ts';
import type { PathScope } from '../../services/scope.ts';
import { describeRoute } from '../openapi/describe-route.ts';
import { actorOf } from '../request/authentication.ts';
import { idempotencyKey, missingKey, requestTarget, requiredKeyHeader } from '../request/idempotency-key.ts';
import { hpcParam, pathScope, projectParams, projectScope, userIdOf, userParam } from '../request/path-params.ts';
import { addResource } from './resource.ts';

const tag = 'administration';

/** Grants, projects, members, users, the audit trail and the check of the ledger, for administrators. */
export function administrationRoutes(app: FastifyInstance, admin: AdminService, access: AccessService): void {
  app.addHook('onRequest', async (request) => access.requireAdmin(actorOf(request)));
  grantRoutes(app, admin);
  projectRoutes(app, admin);

  addResource(app, '/admin/users/', {
    GET: {
      schema: {
        ...describeRoute(tag, 'listUsers', 'List all users with their roles', { 200: Type.Array(Type.Ref('User')) }),
        description: 'A user exists from the first request with a valid token.',
      },
      handler: () => admin.listUsers(),
    },
  });
  const AuditQuery = Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
    before: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: Number.MAX_SAFE_INTEGER,
        description: 'Only records with a smaller id, for the next page.',
      }),
    ),
  });
  addResource(app, '/admin/audit/', {
    GET: {
      schema: {
        ...describeRoute(tag, 'listAuditRecords', 'List admin actions, newest first', {
          200: Type.Array(Type.Ref('AuditRecord')),
        }),
        description: 'The records are never changed.',
        querystring: AuditQuery,
      },
      handler: (request) => {
        const { limit, before } = request.query as Static<typeof AuditQuery>;
        return admin.listAudit(limit, before);
      },
    },
  });
  addResource(app, '/admin/ledger/proof/', {
    GET: {
      schema: {
        ...describeRoute(tag, 'verifyLedger', 'Check all balances against the ledger entries', {
          200: Type.Ref('LedgerProof'),
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
    operationId: string,
    summary: string,
    body: Body,
    run: (scope: Required<PathScope>, command: AdminCommand<Static<Body>>, request: FastifyRequest) => Promise<unknown>,
    options: { params?: object; response?: string } = {},
  ) => ({
    POST: {
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
      handler: async (request: FastifyRequest, reply: { code(status: number): unknown }) => {
        const result = await run(projectScope(request), toCommand<Static<Body>>(request), request);
        reply.code(201);
        return result;
      },
    },
  });
  addResource(
    app,
    prefix,
    post('changePool', 'Change the unallocated part of the pool', PoolGrantBody, admin.changePool),
  );
  addResource(
    app,
    `${prefix}transfers/`,
    post('transferGrant', 'Move a grant between members', TransferBody, admin.transfer),
  );
  addResource(app, `${prefix}refunds/`, post('refundJob', 'Refund charged time of a job', RefundBody, admin.refund));
  addResource(
    app,
    `${prefix}periods/`,
    post('openPeriod', 'Open a grant period', PeriodBody, admin.openPeriod, { response: 'Period' }),
  );
  addResource(
    app,
    `${prefix}members/:user_id/`,
    post(
      'changeMemberQuota',
      "Change a member's quota",
      CapGrantBody,
      (project, command, request) => admin.changeCap(project, userIdOf(request), command),
      { params: userParam },
    ),
  );
}

function projectRoutes(app: FastifyInstance, admin: AdminService): void {
  const list = (operationId: string, params: object) => ({
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
