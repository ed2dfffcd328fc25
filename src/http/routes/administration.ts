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
import { hpcParam, pathScope, projectParams, projectPath } from '../request/path-params.ts';
import { describe } from '../server/openapi.ts';
import { resource } from './resource.ts';

const tag = 'administration';
const userParam = { user_id: Type.String({ description: 'The user, in digits.' }) };
const userOf = (request: FastifyRequest) => (request.params as { user_id: string }).user_id;

/** Everything that administrators do beside reading: grants, projects, members, the audit trail, the proof. */
export function administrationRoutes(app: FastifyInstance, admin: AdminService, access: AccessService): void {
  app.addHook('onRequest', async (request) => access.requireAdmin(actorOf(request)));
  grantRoutes(app, admin);
  projectRoutes(app, admin);

  resource(app, '/admin/users/', {
    GET: {
      schema: describe(tag, 'All users with their roles', { 200: Type.Array(Type.Ref('User')) }),
      handler: () => admin.listUsers(),
    },
  });
  const AuditQuery = Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
    before: Type.Optional(Type.Integer({ description: 'Only records with a smaller id: the next page.' })),
  });
  resource(app, '/admin/audit/', {
    GET: {
      schema: {
        ...describe(tag, 'What administrators did, the newest first', { 200: Type.Array(Type.Ref('AuditRecord')) }),
        querystring: AuditQuery,
      },
      handler: (request) => {
        const { limit, before } = request.query as Static<typeof AuditQuery>;
        return admin.listAudit(limit, before);
      },
    },
  });
  resource(app, '/admin/ledger/proof/', {
    GET: {
      schema: describe(tag, 'Whether the books balance, recomputed from the entries', { 200: Type.Ref('LedgerProof') }),
      handler: () => admin.verifyLedger(),
    },
  });
}

function grantRoutes(app: FastifyInstance, admin: AdminService): void {
  const prefix = '/admin/grants/:hpc/:project_name/';
  const post = <Body extends TObject>(
    summary: string,
    body: Body,
    act: (place: Required<PathScope>, command: AdminCommand<Static<Body>>, request: FastifyRequest) => Promise<unknown>,
    more: { params?: object; answer?: string } = {},
  ) => ({
    POST: {
      schema: {
        ...describe(tag, summary, {
          201: more.answer === undefined ? Type.Array(Type.Ref('Account')) : Type.Ref(more.answer),
        }),
        params: Type.Object({ ...projectParams, ...more.params }),
        headers: Type.Object(requiredKeyHeader),
        body,
      },
      handler: async (request: FastifyRequest, reply: { code(status: number): unknown }) => {
        const answer = await act(projectPath(request), toCommand<Static<Body>>(request), request);
        reply.code(201);
        return answer;
      },
    },
  });
  resource(app, prefix, post('Grow or shrink the reserve of a project', PoolGrantBody, admin.grantPool));
  resource(app, `${prefix}transfers/`, post('Move a grant between members', TransferBody, admin.transfer));
  resource(app, `${prefix}refunds/`, post('Give charged time back', RefundBody, admin.refund));
  resource(
    app,
    `${prefix}periods/`,
    post('Grant time from a moment to another', PeriodBody, admin.openPeriod, { answer: 'Period' }),
  );
  resource(
    app,
    `${prefix}:user_id(^\\d+$)/`,
    post(
      "Grow or shrink a member's quota",
      CapGrantBody,
      (place, command, request) => admin.grantCap(place, userOf(request), command),
      { params: userParam },
    ),
  );
}

function projectRoutes(app: FastifyInstance, admin: AdminService): void {
  const list = (params: object) => ({
    schema: {
      ...describe(tag, 'Projects', { 200: Type.Array(Type.Ref('Project')) }),
      params: Type.Object({ ...params }),
    },
    handler: (request: FastifyRequest) => admin.listProjects(pathScope(request)),
  });
  resource(app, '/admin/projects/', { GET: list({}) });
  resource(app, '/admin/projects/:hpc/', {
    GET: list(hpcParam),
    POST: {
      schema: {
        ...describe(tag, 'Create a project', { 201: Type.Ref('Project') }),
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
  resource(app, '/admin/projects/:hpc/:project_name/close/', {
    POST: {
      schema: {
        ...describe(tag, 'Close a project: it takes no more jobs', { 200: Type.Ref('Project') }),
        params: Type.Object(projectParams),
        headers: Type.Object(requiredKeyHeader),
        body: ReasonBody,
      },
      handler: (request) => admin.closeProject(projectPath(request), toCommand(request)),
    },
  });
  resource(app, '/admin/projects/:hpc/:project_name/members/', {
    GET: {
      schema: {
        ...describe(tag, 'The members of a project', { 200: Type.Array(Type.Ref('Member')) }),
        params: Type.Object(projectParams),
      },
      handler: (request) => admin.listMembers(projectPath(request)),
    },
  });
  resource(app, '/admin/projects/:hpc/:project_name/members/:user_id/', {
    PUT: {
      schema: {
        ...describe(tag, 'Add, remove, ban or unban a member', { 200: Type.Ref('Member') }),
        params: Type.Object({ ...projectParams, ...userParam }),
        body: MemberBody,
      },
      handler: (request) =>
        admin.setMember(
          actorOf(request),
          projectPath(request),
          userOf(request),
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
      'Send the header Idempotency-Key with a text of your choice (1 to 200 visible characters), a new one for each act.',
    );
  }
  return { actor: actorOf(request), key, target: requestTarget(request), body: request.body as Body };
}
