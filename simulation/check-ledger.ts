import type { Selectable } from 'kysely';
import { availableBalance } from '../src/domain/accounting/charge.ts';
import type { Db } from '../src/store/database/handle.ts';
import type { Tables } from '../src/store/database/tables.ts';
import { poolHolder } from '../src/store/ledger/accounts.ts';
import type { HistoryContext } from './invariants.ts';
import { maxSkewMs, members } from './plan.ts';
import type { Command } from './users.ts';

type Job = Selectable<Tables['jobs']>;

/** No job was accepted beyond the quota. */
export async function findOverspending(db: Db): Promise<string[]> {
  const accounts = await db.selectFrom('accounts').selectAll().execute();
  const overspent = accounts.filter((account) => availableBalance(account) < 0);
  return overspent.map((account) => `account ${account.id} is overspent: ${JSON.stringify(account)}`);
}

/** A job holds time of the period in which it was accepted. */
export async function findWrongPeriods({ db, plan }: HistoryContext): Promise<string[]> {
  const holds = await db
    .selectFrom('holds')
    .innerJoin('jobs', 'jobs.id', 'holds.job')
    .innerJoin('accounts', 'accounts.id', 'holds.timeCap')
    .innerJoin('periods', 'periods.id', 'accounts.periodId')
    .select(['jobs.jobId', 'jobs.acceptedAt', 'periods.startsAt', 'periods.endsAt'])
    .execute();
  // A period can begin by a clock that is behind that of the server that accepted a job before.
  const skewMs = maxSkewMs(plan);
  const isOutside = (at: number, starts: number, ends: number | null) =>
    at < starts - skewMs || (ends !== null && at > ends + skewMs);
  const wrong = holds.filter(({ acceptedAt, startsAt, endsAt }) => isOutside(acceptedAt, startsAt, endsAt));
  return wrong.map(({ jobId }) => `${jobId} holds time of a period that it was not accepted in`);
}

type Entry = Awaited<ReturnType<typeof listEntries>>[number];

/** The entries of the accounts of time. */
export async function listEntries(db: Db) {
  return await db
    .selectFrom('entries')
    .innerJoin('accounts', 'accounts.id', 'entries.accountId')
    .innerJoin('projects', 'projects.id', 'accounts.projectId')
    .where('accounts.resource', '=', 'time')
    .select(['entries.kind', 'entries.granted', 'entries.posted', 'entries.overrun', 'entries.reason', 'entries.job'])
    .select(['accounts.holder', 'projects.name as project'])
    .execute();
}

/** Of granted, posted and overrun: a grant and a charge raise it, a refund lowers it. */
export const sumOfChanges = (entries: readonly Entry[] = []) =>
  entries.reduce((total, { granted, posted, overrun }) => total + granted + posted + overrun, 0);

/** Jobs are charged to their owners and to the pool of their project, and nobody pays for anything else. */
export function checkBalances(entries: readonly Entry[], jobs: readonly Job[]): string[] {
  const byId = new Map(jobs.map((job) => [job.id, job]));
  const charges = Map.groupBy(
    entries.filter(({ kind }) => kind === 'charge'),
    ({ job }) => job,
  );
  return [...charges].flatMap(([id, parts]) => {
    const job = byId.get(id ?? 0);
    const [pool, cap] = [parts.filter(({ holder }) => holder === poolHolder), parts.filter(({ holder }) => holder)];
    const isRight =
      parts.every(({ project }) => project === job?.projectName) && cap.every(({ holder }) => holder === job?.owner);
    return isRight && sumOfChanges(pool) === sumOfChanges(cap)
      ? []
      : [`${job?.jobId} is charged to ${JSON.stringify(parts)}`];
  });
}

/** A command that was answered has its effect, once, and one that was refused has none. */
export async function checkCommands({ db, log }: HistoryContext, entries: readonly Entry[]): Promise<string[]> {
  const audit = await db.selectFrom('audit').select(['action', 'details']).execute();
  const owners = new Map(
    (await db.selectFrom('jobs').select(['jobId', 'owner']).execute()).map((job) => [job.jobId, job.owner]),
  );
  const countAudited = (reason: string) => audit.filter(({ details }) => JSON.parse(details).reason === reason).length;
  const problems: string[] = [];
  const changes = Map.groupBy(
    entries.filter(({ kind }) => ['grant', 'top_up', 'transfer', 'refund'].includes(kind)),
    ({ reason }) => reason,
  );
  for (const [reason, command] of log.commands) {
    const count = countAudited(reason);
    const expected = command.kind === 'disable user' ? 2 : 1;
    if (count !== expected) problems.push(`"${reason}" is in the audit trail ${count} times`);
    const byHolder = Map.groupBy(changes.get(reason) ?? [], ({ holder }) => holder);
    const amounts = new Map([...byHolder].map(([holder, parts]) => [holder, sumOfChanges(parts)]));
    const expectedAmounts = amountsOf(command, owners);
    const holders = new Set([...amounts.keys(), ...expectedAmounts.keys()]);
    for (const holder of holders)
      if ((amounts.get(holder) ?? 0) !== (expectedAmounts.get(holder) ?? 0))
        problems.push(`"${reason}" changes the account of "${holder}" by ${amounts.get(holder)}`);
  }
  for (const reason of log.refusedCommands)
    if (changes.has(reason) || countAudited(reason) > 0) problems.push(`"${reason}" was refused and has an effect`);
  const { closedAt } = await db
    .selectFrom('projects')
    .select('closedAt')
    .where('name', '=', 'side')
    .executeTakeFirstOrThrow();
  const isClosed = [...log.commands.values()].some(({ kind }) => kind === 'close project');
  if (isClosed !== (closedAt !== null)) problems.push(`the project is ${closedAt === null ? 'open' : 'closed'}`);
  return problems;
}

/** By how much a command changes the sum of each account: by holder. */
function amountsOf(command: Command, owners: ReadonlyMap<string, string>): Map<string, number> {
  switch (command.kind) {
    case 'grant':
      return new Map([
        [command.user, command.amount],
        [poolHolder, command.amount],
      ]);
    case 'transfer':
      return new Map([
        [command.from, -command.amount],
        [command.to, command.amount],
      ]);
    case 'refund':
      return new Map([
        [owners.get(command.refundedJobId ?? '') ?? '', -command.amount],
        [poolHolder, -command.amount],
      ]);
    case 'open period':
      return new Map([
        ...members.map((user) => [user, command.memberSeconds] as const),
        [poolHolder, members.length * command.memberSeconds],
      ]);
    default:
      return new Map();
  }
}
