import { randomUUID } from 'node:crypto';
import type { Account } from '#client';
import type { Context } from '../context.ts';
import { usageError } from '../errors.ts';
import { parseUntil } from '../job/parse-since.ts';
import { parseProject } from '../project.ts';
import type { Column } from '../terminal/table.ts';
import { formatExactNumber } from '../terminal/time.ts';
import { parseAmount, parseResource } from './amounts.ts';

interface GrantOptions {
  project: string;
  reason: string;
  key?: string;
}

/** A command that is repeated with the same key changes the ledger once. */
const keyOf = ({ key }: GrantOptions) => ({ 'Idempotency-Key': key ?? randomUUID() });

const columns: Column<Account>[] = [
  { title: 'Account', value: ({ user }) => (user === null ? 'pool of the project' : user) },
  { title: 'Resource', value: ({ resource }) => resource },
  { title: 'Unit', value: ({ unit }) => unit },
  ...(['granted', 'held', 'used', 'available'] as const).map(
    (name): Column<Account> => ({
      title: name[0]?.toUpperCase() + name.slice(1),
      value: (account) => formatExactNumber(account[name]),
      plain: (account) => String(account[name]),
      align: 'right',
    }),
  ),
];

async function printAccounts(context: Context, accounts: Account[]): Promise<void> {
  await context.printTable(accounts, columns, 'No account has changed.');
}

interface ChangeOptions extends GrantOptions {
  user?: string;
  time?: string;
  space?: string;
  withdraw?: boolean;
  fromPool?: boolean;
}

/** Increases or reduces the quota of a member, or the reserve of the project. */
export async function change(context: Context, options: ChangeOptions): Promise<void> {
  const { user, withdraw, fromPool, reason } = options;
  if (user === undefined && fromPool) throw usageError('--from-pool is for the quota of a member.', 'Give --user.');
  const { api } = await context.client();
  const path = parseProject(options.project);
  const kind = withdraw ? 'withdraw' : 'top_up';
  const body = { kind, ...parseResource(options), reason } as const;
  const headers = keyOf(options);
  const { signal } = context;
  if (user === undefined) return await printAccounts(context, await api.changePool({ path, body, headers, signal }));
  const memberBody = { ...body, ...(fromPool ? { source: 'pool' as const } : {}) };
  const request = { path: { ...path, user_id: user }, body: memberBody, headers, signal };
  await printAccounts(context, await api.changeMemberQuota(request));
}

interface TransferOptions extends GrantOptions {
  from: string;
  to: string;
  time?: string;
  space?: string;
}

export async function transfer(context: Context, options: TransferOptions): Promise<void> {
  const { api } = await context.client();
  const { from, to, reason } = options;
  const body = { from, to, ...parseResource(options), reason };
  const path = parseProject(options.project);
  const accounts = await api.transferGrant({ path, body, headers: keyOf(options), signal: context.signal });
  await printAccounts(context, accounts);
}

export async function refund(context: Context, options: GrantOptions & { job: string; time: string }): Promise<void> {
  const { api } = await context.client();
  const body = { job_id: options.job, amount: parseAmount('--time', options.time), reason: options.reason };
  const path = parseProject(options.project);
  await printAccounts(context, await api.refundJob({ path, body, headers: keyOf(options), signal: context.signal }));
}

interface PeriodOptions extends GrantOptions {
  starts?: string;
  ends?: string;
  member: string;
  reserve?: string;
}

/** Opens a period of a project: its grants replace those of the period before. */
export async function openPeriod(context: Context, options: PeriodOptions): Promise<void> {
  const { api } = await context.client();
  const { starts, ends, reserve, reason } = options;
  const body = {
    ...(starts === undefined ? {} : { starts: parseUntil(starts, context.now()) }),
    ...(ends === undefined ? {} : { ends: parseUntil(ends, context.now()) }),
    member_seconds: parseAmount('--member', options.member),
    ...(reserve === undefined ? {} : { reserve_seconds: parseAmount('--reserve', reserve) }),
    reason,
  };
  const path = parseProject(options.project);
  const period = await api.openPeriod({ path, body, headers: keyOf(options), signal: context.signal });
  if (context.options.json) return await context.printJson(period);
  context.note(`Period ${period.id} from ${period.starts} to ${period.ends ?? 'further notice'}.`);
}
