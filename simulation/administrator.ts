import { changeGrants } from '../src/services/accounting/grants.ts';
import { openPeriod } from '../src/services/accounting/periods.ts';
import type { Actor } from '../src/services/identity/actor.ts';
import { closeProject } from '../src/services/identity/projects.ts';
import { disableUser, enableUser } from '../src/services/identity/users.ts';
import type { ServiceDeps } from '../src/services/service-deps.ts';
import { type Action, administrator as administratorId } from './plan.ts';
import { reasonOf, toActor, toCode, toKey } from './requests.ts';
import { record } from './trace.ts';
import type { ClientLog, Command } from './users.ts';
import { databaseTime, randomNumber, sleep } from './virtual-time.ts';

const main = { hpc: 'sys', project: 'main' };
const administrator: Actor = { ...toActor(administratorId), role: 'administrator' };
const retryMs = 5000;

/** `send` repeats a request until it is answered. */
export function createAdministrator(
  log: ClientLog,
  send: (user: string, work: (services: ServiceDeps) => Promise<unknown>) => Promise<unknown>,
) {
  /** The action that has disabled a user, until it begins to enable them. */
  let disabling: (Action & { kind: 'disable user' }) | null = null;
  let lastDisabling: Promise<void> = Promise.resolve();

  /** Runs an administrative command. A conflict is an answer too. */
  async function command(action: Command, work: (services: ServiceDeps) => Promise<unknown>): Promise<void> {
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
    const request = { actor: administrator, idempotency: toKey(action) };
    switch (action.kind) {
      case 'grant': {
        const { user, amount } = action;
        const change = { kind: 'top_up', user, resource: 'time', amount, source: 'new', reason } as const;
        return await command(action, (services) => changeGrants(services, main, change, request));
      }
      case 'transfer': {
        const { from, to, amount } = action;
        const change = { kind: 'transfer', from, to, resource: 'time', amount, reason } as const;
        return await command(action, (services) => changeGrants(services, main, change, request));
      }
      case 'refund': {
        const jobIds = log.submissions.flatMap(({ answer, project, exitCode }) =>
          answer && 'jobId' in answer && project === 'main' && exitCode === 0 ? answer.jobId : [],
        );
        const jobId = jobIds[Math.floor(randomNumber() * jobIds.length)];
        if (jobId === undefined) return;
        const change = { kind: 'refund', job_id: jobId, amount: action.amount, reason } as const;
        const refund = { ...action, refundedJobId: jobId };
        return await command(refund, (services) => changeGrants(services, main, change, request));
      }
      case 'close project':
        return await command(action, (services) =>
          closeProject(services, { hpc: 'sys', project: 'side' }, reason, request),
        );
      case 'open period': {
        const { memberSeconds, end } = action;
        const ends = end && { ends: new Date(Date.now() + end.afterMs).toISOString() };
        const body = { member_seconds: memberSeconds, reserve_seconds: 0, ...ends, reason };
        await command(action, (services) => openPeriod(services, main, body, request));
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
    await command(action, (services) => disableUser(services, { ...change, idempotency: toKey(action) }));
    disabling = action;
    await sleep(forMs);
    disabling = null;
    await send(administrator.userId, (services) =>
      enableUser(services, { ...change, idempotency: toKey(action, 'enable') }),
    );
    log.disablings.push({ user, from, to: databaseTime() });
  }

  return {
    perform: administrate,
    /** The number of the action by which the user is disabled, or null. */
    disabledBy: (user: string) => (disabling?.user === user ? disabling.id : null),
  };
}
