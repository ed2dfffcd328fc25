import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type, { type Static, type TObject } from 'typebox';
import {
  type AuditSchema,
  CapGrantBody,
  MemberBody,
  type MemberSchema,
  PeriodBody,
  type PeriodSchema,
  PoolGrantBody,
  ProjectBody,
  type ProjectSchema,
  ReasonBody,
  RefundBody,
  TransferBody,
  type UserSchema,
} from '../../contract/administration.ts';
import type { AccountSchema, LedgerVerificationSchema } from '../../contract/ledger.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Actor } from '../../services/identity/actor.ts';
import type { PathScope } from '../../services/scope.ts';
import { actorOf } from '../request/authentication.ts';
import { idempotencyKey, requestTarget, requiredKeyHeader } from '../request/idempotency-key.ts';
import { hpcParam, pathScope, projectParams, projectPath } from '../request/path-params.ts';
import { describe } from '../server/openapi.ts';
import { resource } from './resource.ts';

/** One request of an administrator, with the key that makes its repetition harmless. */
export interface Command<Body> {
  actor: Actor;
  key: string;
  /** Names the request for the key: method and path. */
  target: string;
  body: Body;
}

type Accounts = Promise<Static<typeof AccountSchema>[]>;

export interface AdministrationServices {
  requireAdmin(actor: Actor): void;
  grantPool(place: Required<PathScope>, command: Command<Static<typeof PoolGrantBody>>): Accounts;
  grantCap(place: Required<PathScope>, user: string, command: Command<Static<typeof CapGrantBody>>): Accounts;
  transfer(place: Required<PathScope>, command: Command<Static<typeof TransferBody>>): Accounts;
  refund(place: Required<PathScope>, command: Command<Static<typeof RefundBody>>): Accounts;
  openPeriod(
    place: Required<PathScope>,
    command: Command<Static<typeof PeriodBody>>,
  ): Promise<Static<typeof PeriodSchema>>;
  listProjects(place: PathScope): Promise<Static<typeof ProjectSchema>[]>;
  createProject(hpc: string, command: Command<Static<typeof ProjectBody>>): Promise<Static<typeof ProjectSchema>>;
  closeProject(
    place: Required<PathScope>,
    command: Command<Static<typeof ReasonBody>>,
  ): Promise<Static<typeof ProjectSchema>>;
  listMembers(place: Required<PathScope>): Promise<Static<typeof MemberSchema>[]>;
  setMember(
    actor: Actor,
    place: Required<PathScope>,
    user: string,
    body: Static<typeof MemberBody>,
  ): Promise<Static<typeof MemberSchema>>;
  listUsers(): Promise<Static<typeof UserSchema>[]>;
  listAudit(limit: number, before: number | undefined): Promise<Static<typeof AuditSchema>[]>;
  verifyLedger(): Promise<Static<typeof LedgerVerificationSchema>>;
}

const tag = 'administration';
const userParam = { user_id: Type.String({ description: 'The user, in digits.' }) };
const userOf = (request: FastifyRequest) => (request.params as { user_id: string }).user_id;

/** Everything that administrators do beside reading: grants, projects, members, the audit trail, the proof. */
export function administrationRoutes(app: FastifyInstance, services: AdministrationServices): void {
  app.addHook('onRequest', async (request) => services.requireAdmin(actorOf(request)));
  grantRoutes(app, services);
  projectRoutes(app, services);

  resource(app, '/admin/users/', {
    GET: {
      schema: describe(tag, 'All users with their roles', { 200: Type.Array(Type.Ref('User')) }),
      handler: () => services.listUsers(),
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
        return services.listAudit(limit, before);
      },
    },
  });
  resource(app, '/admin/ledger/proof/', {
    GET: {
      schema: describe(tag, 'Whether the books balance, recomputed from the entries', { 200: Type.Ref('LedgerProof') }),
      handler: () => services.verifyLedger(),
    },
  });
}

function grantRoutes(app: FastifyInstance, services: AdministrationServices): void {
  const prefix = '/admin/grants/:hpc/:project_name/';
  const post = <Body extends TObject>(
    summary: string,
    body: Body,
    act: (place: Required<PathScope>, command: Command<Static<Body>>, request: FastifyRequest) => Promise<unknown>,
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
        const answer = await act(projectPath(request), commandOf<Static<Body>>(request), request);
        reply.code(201);
        return answer;
      },
    },
  });
  resource(app, prefix, post('Grow or shrink the reserve of a project', PoolGrantBody, services.grantPool));
  resource(app, `${prefix}transfers/`, post('Move a grant between members', TransferBody, services.transfer));
  resource(app, `${prefix}refunds/`, post('Give charged time back', RefundBody, services.refund));
  resource(
    app,
    `${prefix}periods/`,
    post('Grant time from a moment to another', PeriodBody, services.openPeriod, { answer: 'Period' }),
  );
  resource(
    app,
    `${prefix}:user_id(^\\d+$)/`,
    post(
      "Grow or shrink a member's quota",
      CapGrantBody,
      (place, command, request) => services.grantCap(place, userOf(request), command),
      { params: userParam },
    ),
  );
}

function projectRoutes(app: FastifyInstance, services: AdministrationServices): void {
  const list = (params: object) => ({
    schema: {
      ...describe(tag, 'Projects', { 200: Type.Array(Type.Ref('Project')) }),
      params: Type.Object({ ...params }),
    },
    handler: (request: FastifyRequest) => services.listProjects(pathScope(request)),
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
        const project = await services.createProject(hpc, commandOf(request));
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
      handler: (request) => services.closeProject(projectPath(request), commandOf(request)),
    },
  });
  resource(app, '/admin/projects/:hpc/:project_name/members/', {
    GET: {
      schema: {
        ...describe(tag, 'The members of a project', { 200: Type.Array(Type.Ref('Member')) }),
        params: Type.Object(projectParams),
      },
      handler: (request) => services.listMembers(projectPath(request)),
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
        services.setMember(
          actorOf(request),
          projectPath(request),
          userOf(request),
          request.body as Static<typeof MemberBody>,
        ),
    },
  });
}

function commandOf<Body>(request: FastifyRequest): Command<Body> {
  const key = idempotencyKey(request);
  if (key === undefined) {
    throw new BursarError(
      'idempotency_key_missing',
      'Send the header Idempotency-Key with a text of your choice (1 to 200 visible characters), a new one for each act.',
    );
  }
  return { actor: actorOf(request), key, target: requestTarget(request), body: request.body as Body };
}
