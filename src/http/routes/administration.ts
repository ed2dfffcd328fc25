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
import type { AdminCommand, AdminService } from '../../services/accounting/admin-service.ts';
import type { AccessService } from '../../services/identity/access.ts';
import type { PathScope } from '../../services/scope.ts';
import { actorOf } from '../request/authentication.ts';
import { idempotencyKey, requestTarget, requiredKeyHeader } from '../request/idempotency-key.ts';
import { hpcParam, pathScope, projectParams, projectScope } from '../request/path-params.ts';
import { describeRoute } from '../server/openapi.ts';
import { addResource } from './resource.ts';

const tag = 'administration';
const userParam = { user_id: Type.String({ description: 'Numeric identifier of the user.' }) };
const userIdOf = (request: FastifyRequest) => (request.params as { user_id: string }).user_id;

/** Grants, projects, members, users, the audit trail and the check of the ledger, for administrators. */
export function administrationRoutes(app: FastifyInstance, admin: AdminService, access: AccessService): void {
  app.addHook('onRequest', async (request) => access.requireAdmin(actorOf(request)));
  grantRoutes(app, admin);
  projectRoutes(app, admin);

  addResource(app, '/admin/users/', {
    GET: {
      schema: describeRoute(tag, 'List all users with their roles', { 200: Type.Array(Type.Ref('User')) }),
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
        ...describeRoute(tag, 'List admin actions, newest first', { 200: Type.Array(Type.Ref('AuditRecord')) }),
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
      schema: describeRoute(tag, 'Check all balances against the ledger entries', { 200: Type.Ref('LedgerProof') }),
      handler: () => admin.verifyLedger(),
    },
  });
}

function grantRoutes(app: FastifyInstance, admin: AdminService): void {
  const prefix = '/admin/grants/:hpc/:project_name/';
  const post = <Body extends TObject>(
    summary: string,
    body: Body,
    run: (scope: Required<PathScope>, command: AdminCommand<Static<Body>>, request: FastifyRequest) => Promise<unknown>,
    options: { params?: object; response?: string } = {},
  ) => ({
    POST: {
      schema: {
        ...describeRoute(tag, summary, {
          201: options.response === undefined ? Type.Array(Type.Ref('Account')) : Type.Ref(options.response),
        }),
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
  addResource(app, prefix, post('Change the unallocated part of the pool', PoolGrantBody, admin.changePool));
  addResource(app, `${prefix}transfers/`, post('Move a grant between members', TransferBody, admin.transfer));
  addResource(app, `${prefix}refunds/`, post('Refund charged time of a job', RefundBody, admin.refund));
  addResource(
    app,
    `${prefix}periods/`,
    post('Open a grant period', PeriodBody, admin.openPeriod, { response: 'Period' }),
  );
  addResource(
    app,
    `${prefix}:user_id(^\\d+$)/`,
    post(
      "Change a member's quota",
      CapGrantBody,
      (project, command, request) => admin.changeCap(project, userIdOf(request), command),
      { params: userParam },
    ),
  );
}

function projectRoutes(app: FastifyInstance, admin: AdminService): void {
  const list = (params: object) => ({
    schema: {
      ...describeRoute(tag, 'List projects', { 200: Type.Array(Type.Ref('Project')) }),
      params: Type.Object({ ...params }),
    },
    handler: (request: FastifyRequest) => admin.listProjects(pathScope(request)),
  });
  addResource(app, '/admin/projects/', { GET: list({}) });
  addResource(app, '/admin/projects/:hpc/', {
    GET: list(hpcParam),
    POST: {
      schema: {
        ...describeRoute(tag, 'Create a project', { 201: Type.Ref('Project') }),
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
        ...describeRoute(tag, 'Close a project, so that it accepts no more jobs', { 200: Type.Ref('Project') }),
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
        ...describeRoute(tag, 'List the members of a project', { 200: Type.Array(Type.Ref('Member')) }),
        params: Type.Object(projectParams),
      },
      handler: (request) => admin.listMembers(projectScope(request)),
    },
  });
  addResource(app, '/admin/projects/:hpc/:project_name/members/:user_id/', {
    PUT: {
      schema: {
        ...describeRoute(tag, 'Add, remove, ban or unban a member', { 200: Type.Ref('Member') }),
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
  if (key === undefined) {
    throw new BursarError(
      'idempotency_key_missing',
      'Send the header Idempotency-Key: 1 to 200 visible characters of your choice, new for each request.',
    );
  }
  return { actor: actorOf(request), key, target: requestTarget(request), body: request.body as Body };
}
