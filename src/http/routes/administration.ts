import Type from 'typebox';
import {
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
import type { AdminCommand } from '../../services/accounting/admin-service.ts';
import { type CallerRequest, operation, operations, others } from '../operation.ts';
import { toProject, toScope } from '../request/path-params.ts';
import type { RouteContext } from './context.ts';

const grantDescription =
  'Returns the accounts that have changed, or the new period. The action is recorded in the audit trail.';
const grant = {
  description: grantDescription,
  key: 'required',
  responses: { 201: Type.Array(AccountSchema) },
} as const;
const projectList = {
  description: 'All projects, including closed ones.',
  responses: { 200: Type.Array(ProjectSchema) },
};

function toCommand<Body>({ caller, idempotency, body }: CallerRequest & { body: Body }): AdminCommand<Body> {
  if (idempotency === null) throw new Error('the operation does not require a key');
  return { actor: caller, key: idempotency.key, target: idempotency.target, body };
}

/** Grants, projects, members and the check of the ledger. */
export const administrationOperations = ({ admin }: RouteContext) =>
  operations('administration', {
    changePool: operation({
      route: 'POST /admin/grants/{hpc}/{project_name}/',
      access: others('projects.write'),
      summary: 'Change the unallocated part of the pool',
      ...grant,
      body: PoolGrantBody,
      handler: (request) => admin.changePool(toProject(request.params), toCommand(request)),
    }),
    transferGrant: operation({
      route: 'POST /admin/grants/{hpc}/{project_name}/transfers/',
      access: others('grants.write'),
      summary: 'Move a grant between members',
      ...grant,
      body: TransferBody,
      handler: (request) => admin.transfer(toProject(request.params), toCommand(request)),
    }),
    refundJob: operation({
      route: 'POST /admin/grants/{hpc}/{project_name}/refunds/',
      access: others('projects.write'),
      summary: 'Refund charged time of a job',
      ...grant,
      body: RefundBody,
      handler: (request) => admin.refund(toProject(request.params), toCommand(request)),
    }),
    openPeriod: operation({
      route: 'POST /admin/grants/{hpc}/{project_name}/periods/',
      access: others('projects.write'),
      summary: 'Open a grant period',
      description: grantDescription,
      key: 'required',
      body: PeriodBody,
      responses: { 201: PeriodSchema },
      handler: (request) => admin.openPeriod(toProject(request.params), toCommand(request)),
    }),
    changeMemberQuota: operation({
      route: 'POST /admin/grants/{hpc}/{project_name}/members/{user_id}/',
      access: others('grants.write'),
      summary: "Change a member's quota",
      ...grant,
      body: CapGrantBody,
      handler: async (request) => {
        const { params, body, isManager } = request;
        if (isManager && body.source !== 'pool') {
          const message = 'A manager cannot change the pool of the project. Send "source": "pool".';
          throw new BursarError('forbidden', message);
        }
        return admin.changeCap(toProject(params), params.user_id, toCommand(request));
      },
    }),

    listProjects: operation({
      route: 'GET /admin/projects/',
      access: others('projects.read'),
      summary: 'List projects',
      ...projectList,
      handler: () => admin.listProjects({}),
    }),
    listProjectsOnSystem: operation({
      route: 'GET /admin/projects/{hpc}/',
      access: others('projects.read'),
      summary: 'List projects on one system',
      ...projectList,
      handler: ({ params }) => admin.listProjects(toScope(params)),
    }),
    createProject: operation({
      route: 'POST /admin/projects/{hpc}/',
      access: others('projects.write'),
      summary: 'Create a project',
      description: 'Every user joins it with `auto_join`; otherwise members are added.',
      key: 'required',
      body: ProjectBody,
      responses: { 201: ProjectSchema },
      handler: (request) => admin.createProject(request.params.hpc, toCommand(request)),
    }),
    closeProject: operation({
      route: 'POST /admin/projects/{hpc}/{project_name}/close/',
      access: others('projects.write'),
      summary: 'Close a project, so that it accepts no more jobs',
      description: 'Its submitted jobs continue, and its quotas stay readable.',
      key: 'required',
      body: ReasonBody,
      responses: { 200: ProjectSchema },
      handler: (request) => admin.closeProject(toProject(request.params), toCommand(request)),
    }),
    listMembers: operation({
      route: 'GET /admin/projects/{hpc}/{project_name}/members/',
      access: others('projects.read'),
      summary: 'List the members of a project',
      description: 'All members, including removed and banned ones.',
      responses: { 200: Type.Array(MemberSchema) },
      handler: ({ params }) => admin.listMembers(toProject(params)),
    }),
    setMember: operation({
      route: 'PUT /admin/projects/{hpc}/{project_name}/members/{user_id}/',
      access: others('members.write'),
      summary: 'Add, remove, ban or unban a member',
      description: 'Can be repeated. A removed or banned member cannot submit, but keeps the jobs.',
      body: MemberBody,
      responses: { 200: MemberSchema },
      handler: ({ caller, params, body }) => admin.setMember(caller, toProject(params), params.user_id, body),
    }),

    verifyLedger: operation({
      route: 'GET /admin/ledger/verification/',
      access: others('ledger.verify'),
      summary: 'Check all balances against the ledger entries',
      description: 'Adds up all entries, which takes seconds in a large ledger.',
      responses: { 200: LedgerVerificationSchema },
      handler: () => admin.verifyLedger(),
    }),
  });
