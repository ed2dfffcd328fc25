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
import { toIsoTime } from '../../contract/json-format.ts';
import { publicAccount } from '../../contract/ledger.ts';
import { publicSystemName } from '../../domain/systems/system.ts';
import { bytesPerKb, publicUnits } from '../../domain/units.ts';
import type { Db } from '../../store/database/handle.ts';
import { listAudit } from '../../store/identity/audit.ts';
import { listMembers, type MemberRecord } from '../../store/identity/members.ts';
import { listProjects, type ProjectRecord } from '../../store/identity/projects.ts';
import { listUsers } from '../../store/identity/users.ts';
import type { LedgerVerification } from '../../store/ledger/verify-ledger.ts';
import type { Actor } from '../identity/actor.ts';
import { type PathScope, requireProject, requireSystem, type Systems } from '../scope.ts';
import {
  type AdministrativeAct,
  administer,
  closeProjectAct,
  grantAct,
  memberAct,
  newProjectAct,
  periodAct,
} from './admin-actions.ts';
import type { GrantAct } from './grants.ts';

/** A request of an administrator: who, what, and the key that makes its repetition harmless. */
export interface AdminCommand<Body> {
  actor: Actor;
  key: string;
  target: string;
  body: Body;
}

type Project = Required<PathScope>;

/** The administrators' side of the service, in the words and units of its callers. */
export type AdminService = ReturnType<typeof createAdminService>;

export interface AdminServiceDeps {
  db: Db;
  systems: Systems;
  now(): number;
  verifyLedger(): Promise<LedgerVerification>;
}

export function createAdminService({ db, systems, now, verifyLedger }: AdminServiceDeps) {
  const project = ({ hpc, project: name }: Project) => requireProject(db, systems, hpc, name);

  const perform = <T>(command: AdminCommand<unknown>, act: AdministrativeAct<T>) => {
    const { actor, key, target, body } = command;
    return administer(db, { userId: actor.userId, key, content: [target, body] }, act, now());
  };

  const grant = async (place: Project, command: AdminCommand<unknown>, act: GrantAct) => {
    const details = { ...(command.body as object), ...('user' in act ? { user: act.user } : {}) };
    const accounts = await perform(command, grantAct(command.actor, await project(place), act, details));
    return accounts.map(publicAccount);
  };

  return {
    verifyLedger,

    grantPool: (place: Project, command: AdminCommand<Static<typeof PoolGrantBody>>) =>
      grant(place, command, { ...inside(command.body), user: null, source: 'new' }),

    grantCap: (place: Project, user: string, command: AdminCommand<Static<typeof CapGrantBody>>) =>
      grant(place, command, { ...inside(command.body), user }),

    transfer: (place: Project, command: AdminCommand<Static<typeof TransferBody>>) =>
      grant(place, command, { ...inside(command.body), kind: 'transfer' }),

    refund: (place: Project, command: AdminCommand<Static<typeof RefundBody>>) => {
      const { job_id: jobId, amount, reason } = command.body;
      return grant(place, command, { kind: 'refund', jobId, amount, reason });
    },

    async openPeriod(place: Project, command: AdminCommand<Static<typeof PeriodBody>>) {
      const { starts, ends, member_seconds, reserve_seconds, reason } = command.body;
      const startsAt = starts === undefined ? null : Date.parse(starts);
      const endsAt = ends === undefined ? null : Date.parse(ends);
      const period = { startsAt, endsAt, memberSeconds: member_seconds, reserveSeconds: reserve_seconds, reason };
      const opened = await perform(command, periodAct(command.actor, await project(place), period, command.body));
      const { id, startsAt: from, endsAt: to } = opened;
      return { id, starts: toIsoTime(from), ends: to === null ? null : toIsoTime(to) };
    },

    async listProjects({ hpc }: PathScope) {
      if (hpc !== undefined) requireSystem(systems, hpc);
      return (await listProjects(db, hpc)).map(publicProject);
    },

    async createProject(hpc: string, command: AdminCommand<Static<typeof ProjectBody>>) {
      requireSystem(systems, hpc);
      const { name, auto_join: autoJoin, grant_time_seconds: timeSeconds, grant_space_kb } = command.body;
      const grant = { timeSeconds, spaceBytes: grant_space_kb * bytesPerKb };
      const act = newProjectAct(command.actor, { hpc, name, autoJoin, grant, createdAt: now() }, command.body);
      return publicProject(await perform(command, act));
    },

    async closeProject(place: Project, command: AdminCommand<Static<typeof ReasonBody>>) {
      return publicProject(
        await perform(command, closeProjectAct(command.actor, await project(place), command.body.reason)),
      );
    },

    listMembers: async (place: Project) => (await listMembers(db, (await project(place)).id)).map(publicMember),

    async setMember(actor: Actor, place: Project, user: string, { status, reason }: Static<typeof MemberBody>) {
      const act = memberAct(actor, await project(place), user, status, reason);
      return publicMember(await administer(db, null, act, now()));
    },

    listUsers: async () =>
      (await listUsers(db)).map(({ id, role, createdAt }) => ({ user: id, role, created_at: toIsoTime(createdAt) })),

    listAudit: async (limit: number, before: number | undefined) =>
      (await listAudit(db, limit, before)).map((record) => ({ ...record, at: toIsoTime(record.at) })),
  };
}

/** Amounts come in KB of space, and are counted in bytes. */
function inside<Body extends { resource: 'time' | 'space'; amount: number }>(body: Body): Body {
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
    closed_at: project.closedAt === null ? null : toIsoTime(project.closedAt),
  };
}

function publicMember({ userId, status, reason, since }: MemberRecord) {
  return { user: userId, status, reason, since: toIsoTime(since) };
}
