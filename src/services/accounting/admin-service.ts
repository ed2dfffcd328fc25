import type { Static } from 'typebox';
import type {
  CapGrantBody,
  MemberBody,
  PeriodBody,
  PoolGrantBody,
  ProjectBody,
  ReasonBody,
  RefundBody,
  TransferBody,
} from '../../contract/administration.ts';
import { toIsoTime, toIsoTimeOrNull } from '../../contract/fields.ts';
import { publicAccount } from '../../contract/ledger.ts';
import { publicSystemName } from '../../domain/systems/system.ts';
import { bytesPerKb, publicUnits } from '../../domain/units.ts';
import type { Db } from '../../store/database/handle.ts';
import { listMembers, type MemberRecord } from '../../store/identity/members.ts';
import { listProjects, type ProjectRecord } from '../../store/identity/projects.ts';
import type { LedgerVerification } from '../../store/ledger/verify-ledger.ts';
import type { Actor } from '../identity/actor.ts';
import { type PathScope, requireProject, requireSystem, type Systems } from '../scope.ts';
import {
  type AdminAction,
  closeProjectAction,
  createProjectAction,
  executeAdminAction,
  grantAction,
  openPeriodAction,
  setMemberAction,
} from './admin-actions.ts';
import type { GrantChange } from './grants.ts';

/** A request of an administrator. The key makes it safe to repeat. */
export interface AdminCommand<Body> {
  actor: Actor;
  key: string;
  target: string;
  body: Body;
}

type ProjectScope = Required<PathScope>;

export type AdminService = ReturnType<typeof createAdminService>;

export interface AdminServiceDeps {
  db: Db;
  systems: Systems;
  now(): number;
  /** Tells the event streams and webhooks of a user that there are new events. */
  publish(userId: string): void;
  verifyLedger(): Promise<LedgerVerification>;
}

/** Everything that administrators do, in the names and units of the API. */
export function createAdminService({ db, systems, now, publish, verifyLedger }: AdminServiceDeps) {
  const findProject = ({ hpc, project }: ProjectScope) => requireProject(db, systems, hpc, project);

  const run = <T>(command: AdminCommand<unknown>, action: AdminAction<T>) => {
    const { actor, key, target, body } = command;
    return executeAdminAction(db, { userId: actor.userId, key, content: [target, body] }, action, now());
  };

  /** Runs an action that gives events to users, and publishes them after the commit. */
  const runWithEvents = async <T>(
    command: AdminCommand<unknown>,
    createAction: (notify: (userIds: readonly string[]) => void) => AdminAction<T>,
  ) => {
    let notified: readonly string[] = [];
    const notify = (userIds: readonly string[]) => {
      notified = userIds;
    };
    const result = await run(command, createAction(notify));
    for (const userId of notified) publish(userId);
    return result;
  };

  const grant = async (scope: ProjectScope, command: AdminCommand<unknown>, change: GrantChange) => {
    const details = { ...(command.body as object), ...('user' in change ? { user: change.user } : {}) };
    const project = await findProject(scope);
    const accounts = await runWithEvents(command, (notify) =>
      grantAction(command.actor, project, change, details, notify),
    );
    return accounts.map(publicAccount);
  };

  return {
    verifyLedger,

    changePool: (scope: ProjectScope, command: AdminCommand<Static<typeof PoolGrantBody>>) =>
      grant(scope, command, { ...toInternalUnits(command.body), user: null, source: 'new' }),

    changeCap: (scope: ProjectScope, user: string, command: AdminCommand<Static<typeof CapGrantBody>>) =>
      grant(scope, command, { ...toInternalUnits(command.body), user }),

    transfer: (scope: ProjectScope, command: AdminCommand<Static<typeof TransferBody>>) =>
      grant(scope, command, { ...toInternalUnits(command.body), kind: 'transfer' }),

    refund: (scope: ProjectScope, command: AdminCommand<Static<typeof RefundBody>>) => {
      const { job_id: jobId, amount, reason } = command.body;
      return grant(scope, command, { kind: 'refund', jobId, amount, reason });
    },

    async openPeriod(scope: ProjectScope, command: AdminCommand<Static<typeof PeriodBody>>) {
      const { starts, ends, member_seconds, reserve_seconds, reason } = command.body;
      const startsAt = starts === undefined ? null : Date.parse(starts);
      const endsAt = ends === undefined ? null : Date.parse(ends);
      const period = { startsAt, endsAt, memberSeconds: member_seconds, reserveSeconds: reserve_seconds, reason };
      const project = await findProject(scope);
      const opened = await runWithEvents(command, (notify) =>
        openPeriodAction(command.actor, project, period, command.body, notify),
      );
      const { id, startsAt: from, endsAt: to } = opened;
      return { id, starts: toIsoTime(from), ends: toIsoTimeOrNull(to) };
    },

    async listProjects({ hpc }: PathScope) {
      if (hpc !== undefined) requireSystem(systems, hpc);
      return (await listProjects(db, hpc)).map(publicProject);
    },

    async createProject(hpc: string, command: AdminCommand<Static<typeof ProjectBody>>) {
      requireSystem(systems, hpc);
      const { name, auto_join: autoJoin, grant_time_seconds: timeSeconds, grant_space_kb } = command.body;
      const grant = { timeSeconds, spaceBytes: grant_space_kb * bytesPerKb };
      const action = createProjectAction(command.actor, { hpc, name, autoJoin, grant, createdAt: now() }, command.body);
      return publicProject(await run(command, action));
    },

    async closeProject(scope: ProjectScope, command: AdminCommand<Static<typeof ReasonBody>>) {
      return publicProject(
        await run(command, closeProjectAction(command.actor, await findProject(scope), command.body.reason)),
      );
    },

    listMembers: async (scope: ProjectScope) =>
      (await listMembers(db, (await findProject(scope)).id)).map(publicMember),

    async setMember(actor: Actor, scope: ProjectScope, user: string, change: Static<typeof MemberBody>) {
      const action = setMemberAction(actor, await findProject(scope), user, change);
      return publicMember(await executeAdminAction(db, null, action, now()));
    },
  };
}

/** The API counts space in KB, the ledger in bytes. */
function toInternalUnits<Body extends { resource: 'time' | 'space'; amount: number }>(body: Body): Body {
  return { ...body, amount: body.amount * publicUnits[body.resource].size };
}

function publicProject(project: ProjectRecord) {
  return {
    id: project.id,
    project_hpc: publicSystemName(project.hpc),
    project_name: project.name,
    auto_join: project.autoJoin,
    grant_time_seconds: project.grant.timeSeconds,
    grant_space_kb: project.grant.spaceBytes / bytesPerKb,
    created_at: toIsoTime(project.createdAt),
    closed_at: toIsoTimeOrNull(project.closedAt),
  };
}

function publicMember({ userId, status, role, reason, since }: MemberRecord) {
  return { user: userId, status, role, reason, since: toIsoTime(since) };
}
