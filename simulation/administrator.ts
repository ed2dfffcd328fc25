import type { Actor } from '../src/services/identity/actor.ts';
import { type Action, administrator as administratorId } from './plan.ts';
import { reasonOf, toActor, toCode, toKey } from './requests.ts';
import type { Services } from './server.ts';
import { record } from './trace.ts';
import type { ClientLog, Command } from './users.ts';
import { databaseTime, randomNumber, sleep } from './virtual-time.ts';

const main = { hpc: 'sys', project: 'main' };
const administrator: Actor = { ...toActor(administratorId), role: 'administrator' };
const retryMs = 5000;

/** `send` repeats a request until it is answered. */
export function createAdministrator(
  log: ClientLog,
  send: (user: string, work: (services: Services) => Promise<unknown>) => Promise<unknown>,
) {
  const disabledUsers = new Set<string>();
  /** The numbers of the actions that are enabling a user. */
  const enabling = new Set<number>();

  /** Runs an administrative command. A conflict is an answer too. */
  async function command(action: Command, work: (services: Services) => Promise<unknown>): Promise<void> {
    try {
      await send(administrator.userId, work);
      log.commands.set(reasonOf(action), action);
      record(`administrator: ${reasonOf(action)}`);
    } catch (error) {
      record(`administrator: ${reasonOf(action)} was refused: ${toCode(error)}`);
    }
  }

  async function administrate(action: Action): Promise<void> {
    const reason = reasonOf(action);
    const toCommand = <Body>(body: Body) => ({
      actor: administrator,
      key: reason,
      target: action.kind,
      body: { ...body, reason },
    });
    switch (action.kind) {
      case 'grant': {
        const body = { kind: 'top_up', resource: 'time', amount: action.amount, source: 'new' } as const;
        return await command(action, ({ admin }) => admin.changeCap(main, action.user, toCommand(body)));
      }
      case 'transfer': {
        const { from, to, amount } = action;
        return await command(action, ({ admin }) =>
          admin.transfer(main, toCommand({ from, to, resource: 'time' as const, amount })),
        );
      }
      case 'refund': {
        const jobIds = log.submissions.flatMap(({ answer, project, exitCode }) =>
          answer && 'jobId' in answer && project === 'main' && exitCode === 0 ? answer.jobId : [],
        );
        const jobId = jobIds[Math.floor(randomNumber() * jobIds.length)];
        if (jobId === undefined) return;
        const body = { job_id: jobId, amount: action.amount };
        return await command({ ...action, refundedJobId: jobId }, ({ admin }) => admin.refund(main, toCommand(body)));
      }
      case 'close project':
        return await command(action, ({ admin }) => admin.closeProject({ hpc: 'sys', project: 'side' }, toCommand({})));
      case 'open period': {
        const { memberSeconds, end } = action;
        const ends = end && { ends: new Date(Date.now() + end.afterMs).toISOString() };
        const body = { member_seconds: memberSeconds, reserve_seconds: 0, ...ends };
        await command(action, ({ admin }) => admin.openPeriod(main, toCommand(body)));
        if (end === null || !log.commands.has(reason)) return;
        await sleep(end.afterMs);
        const next: Command = { ...action, id: end.nextId, end: null };
        // The clock of a server may be behind, or another period has begun.
        for (; !log.commands.has(reasonOf(next)); await sleep(retryMs)) await administrate(next);
        return;
      }
      case 'disable user': {
        const change = { actor: administrator, userId: action.user, reason };
        const from = databaseTime();
        await command(action, ({ users }) => users.disable({ ...change, request: toKey(action) }));
        disabledUsers.add(action.user);
        await sleep(action.forMs);
        enabling.add(action.id);
        await send(administrator.userId, ({ users }) => users.enable({ ...change, request: toKey(action, 'enable') }));
        disabledUsers.delete(action.user);
        log.disablings.push({ user: action.user, from, to: databaseTime() });
        enabling.delete(action.id);
      }
    }
  }

  return {
    perform: administrate,
    /** Whether the user was disabled and nobody is enabling a user. */
    hasDisabled: (user: string) => disabledUsers.has(user) && enabling.size === 0,
  };
}
