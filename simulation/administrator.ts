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
  /** The action that has disabled a user, until it begins to enable them. */
  let disabling: (Action & { kind: 'disable user' }) | null = null;
  let lastDisabling: Promise<void> = Promise.resolve();

  /** Runs an administrative command. A conflict is an answer too. */
  async function command(action: Command, work: (services: Services) => Promise<unknown>): Promise<void> {
    try {
      await send(administrator.userId, work);
      log.commands.set(reasonOf(action), action);
      log.refusedCommands.delete(reasonOf(action));
      record(`administrator: ${reasonOf(action)}`);
    } catch (error) {
      log.refusedCommands.add(reasonOf(action));
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
      case 'disable user':
        // One after the other, so that it is known when the user is disabled.
        lastDisabling = lastDisabling.then(() => disable(action));
        return await lastDisabling;
    }
  }

  async function disable(action: Action & { kind: 'disable user' }): Promise<void> {
    const { user, forMs } = action;
    const change = { actor: administrator, userId: user, reason: reasonOf(action) };
    const from = databaseTime();
    await command(action, ({ users }) => users.disable({ ...change, request: toKey(action) }));
    disabling = action;
    await sleep(forMs);
    disabling = null;
    await send(administrator.userId, ({ users }) => users.enable({ ...change, request: toKey(action, 'enable') }));
    log.disablings.push({ user, from, to: databaseTime() });
  }

  return {
    perform: administrate,
    /** The number of the action by which the user is disabled, or null. */
    disabledBy: (user: string) => (disabling?.user === user ? disabling.id : null),
  };
}
