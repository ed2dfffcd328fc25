import Type from 'typebox';
import {
  AuditSchema,
  CapGrantBody,
  MemberBody,
  MemberSchema,
  PeriodBody,
  PeriodSchema,
  PoolGrantBody,
  ProjectBody,
  ProjectSchema,
  ReasonBody,
  RefundBody,
  TransferBody,
} from '../../contract/administration.ts';
import { AccountSchema, LedgerVerificationSchema } from '../../contract/ledger.ts';
import { BursarError } from '../../domain/errors.ts';
import { changeGrants } from '../../services/accounting/grants.ts';
import { openPeriod } from '../../services/accounting/periods.ts';
import type { GrantChange } from '../../services/accounting/quota-events.ts';
import { readAuditTrail } from '../../services/identity/audit-trail.ts';
import { closeProject, createProject, listMembers, listProjects, setMember } from '../../services/identity/projects.ts';
import { type CallerRequest, operation, operations, others } from '../operation.ts';
import { optionalTime, pageQuery, toTimeRange } from '../request/list-query.ts';
import { toProject, toScope } from '../request/path-params.ts';
import { describeTable, exportFormatQuery, sendBatches, tableFormat } from '../response/tables.ts';
import type { RouteContext } from './context.ts';

const grantDescription =
  'Returns the accounts that have changed, or the new period. The action is recorded in the audit trail.';
const grant = {
  description: grantDescription,
  key: 'required',
  responses: { 201: Type.Array(AccountSchema) },
} as const;
type GrantRequest = CallerRequest<'/{hpc}/{project_name}/'>;
const change = (context: RouteContext, { caller, params, idempotency }: GrantRequest, grantChange: GrantChange) =>
  changeGrants(context, toProject(params), grantChange, { actor: caller, idempotency });

const projectList = {
  description: 'All projects, including closed ones.',
  responses: { 200: Type.Array(ProjectSchema) },
};

const auditColumns = Object.keys(AuditSchema.properties);
const optionalText = (description: string) => Type.Optional(Type.String({ maxLength: 500, description }));

/** Grants, projects, members, the check of the ledger and the audit trail. */
export const administrationOperations = (context: RouteContext) =>
  operations('administration', {
    changePool: operation({
      route: 'POST /admin/grants/{hpc}/{project_name}/',
      access: others('projects.write'),
      summary: 'Change the unallocated part of the pool',
      ...grant,
      body: PoolGrantBody,
      handler: (request) => change(context, request, { ...request.body, user: null, source: 'new' }),
    }),
    transferGrant: operation({
      route: 'POST /admin/grants/{hpc}/{project_name}/transfers/',
      access: others('grants.write'),
      summary: 'Move a grant between members',
      ...grant,
      body: TransferBody,
      handler: (request) => change(context, request, { ...request.body, kind: 'transfer' }),
    }),
    refundJob: operation({
      route: 'POST /admin/grants/{hpc}/{project_name}/refunds/',
      access: others('projects.write'),
      summary: 'Refund charged time of a job',
      ...grant,
      body: RefundBody,
      handler: (request) => change(context, request, { ...request.body, kind: 'refund' }),
    }),
    openPeriod: operation({
      route: 'POST /admin/grants/{hpc}/{project_name}/periods/',
      access: others('projects.write'),
      summary: 'Open a grant period',
      description: grantDescription,
      key: 'required',
      body: PeriodBody,
      responses: { 201: PeriodSchema },
      handler: ({ caller, params, body, idempotency }) =>
        openPeriod(context, toProject(params), body, { actor: caller, idempotency }),
    }),
    changeMemberQuota: operation({
      route: 'POST /admin/grants/{hpc}/{project_name}/members/{user_id}/',
      access: others('grants.write'),
      summary: "Change a member's quota",
      ...grant,
      body: CapGrantBody,
      handler: (request) => {
        const { params, body, isManager } = request;
        if (isManager && body.source !== 'pool') {
          const message = 'A manager cannot change the pool of the project. Send "source": "pool".';
          throw new BursarError('forbidden', message);
        }
        return change(context, request, { ...body, user: params.user_id });
      },
    }),

    listProjects: operation({
      route: 'GET /admin/projects/',
      access: others('projects.read'),
      summary: 'List projects',
      ...projectList,
      handler: () => listProjects(context, {}),
    }),
    listProjectsOnSystem: operation({
      route: 'GET /admin/projects/{hpc}/',
      access: others('projects.read'),
      summary: 'List projects on one system',
      ...projectList,
      handler: ({ params }) => listProjects(context, toScope(params)),
    }),
    createProject: operation({
      route: 'POST /admin/projects/{hpc}/',
      access: others('projects.write'),
      summary: 'Create a project',
      description: 'Every user joins it with `auto_join`; otherwise members are added.',
      key: 'required',
      body: ProjectBody,
      responses: { 201: ProjectSchema },
      handler: ({ caller, params, body, idempotency }) =>
        createProject(context, params.hpc, body, { actor: caller, idempotency }),
    }),
    closeProject: operation({
      route: 'POST /admin/projects/{hpc}/{project_name}/close/',
      access: others('projects.write'),
      summary: 'Close a project, so that it accepts no more jobs',
      description: 'Its submitted jobs continue, and its quotas stay readable.',
      key: 'required',
      body: ReasonBody,
      responses: { 200: ProjectSchema },
      handler: ({ caller, params, body, idempotency }) =>
        closeProject(context, toProject(params), body.reason, { actor: caller, idempotency }),
    }),
    listMembers: operation({
      route: 'GET /admin/projects/{hpc}/{project_name}/members/',
      access: others('projects.read'),
      summary: 'List the members of a project',
      description: 'All members, including removed and banned ones.',
      responses: { 200: Type.Array(MemberSchema) },
      handler: ({ params }) => listMembers(context, toProject(params)),
    }),
    setMember: operation({
      route: 'PUT /admin/projects/{hpc}/{project_name}/members/{user_id}/',
      access: others('members.write'),
      summary: 'Add, remove, ban or unban a member',
      description: 'Can be repeated. A removed or banned member cannot submit, but keeps the jobs.',
      body: MemberBody,
      responses: { 200: MemberSchema },
      handler: ({ caller, params, body, idempotency }) =>
        setMember(context, toProject(params), params.user_id, body, { actor: caller, idempotency }),
    }),

    verifyLedger: operation({
      route: 'GET /admin/ledger/verification/',
      access: others('ledger.verify'),
      summary: 'Check all balances against the ledger entries',
      description: 'Adds up all entries, which takes seconds in a large ledger.',
      responses: { 200: LedgerVerificationSchema },
      handler: () => context.verifyLedger(),
    }),

    listAuditRecords: operation({
      route: 'GET /admin/audit/',
      access: others('audit.read'),
      summary: 'List the audit trail, newest first',
      description:
        'Sign-ins, refused requests, and changes to tokens, users, projects and quotas. Records are never changed: each ' +
        'carries a hash over the one before it, and `bursar audit verify` checks all of them. Equal refused requests ' +
        'within a minute are one record, with their number.',
      query: {
        ...pageQuery('records', 1000, '100 as JSON, all in the other formats'),
        actor: optionalText('Only actions of this user. `anonymous`: of requests without valid credentials.'),
        action: optionalText('Only this action, such as `grant.top_up`, or family of actions, such as `grant`.'),
        subject: optionalText('Only actions on this subject, such as `hpc_one/climate`, or on what is below it.'),
        address: optionalText('Only actions from this IP address.'),
        request_id: optionalText('Only actions of the request with this X-Request-Id.'),
        from: optionalTime('Start, ISO 8601.'),
        to: optionalTime('End, ISO 8601, exclusive.'),
        ...exportFormatQuery,
      },
      responses: { 200: describeTable(Type.Array(AuditSchema), 'The records.', auditColumns, true) },
      handler: (request, reply) => {
        const { limit, before, actor, action, subject, address, request_id: requestId } = request.query;
        const filter = { actor, action, subject, address, requestId, ...toTimeRange(request.query) };
        const defaultLimit = tableFormat(request) === 'json' ? 100 : Number.POSITIVE_INFINITY;
        const records = readAuditTrail(context, filter, { limit: limit ?? defaultLimit, before });
        return sendBatches(request, reply, records, auditColumns);
      },
    }),
  });
