import { randomUUID } from 'node:crypto';
import { toHpcSystems } from '../../config/hpc-systems.ts';
import { BursarError } from '../../domain/errors.ts';
import { changeGrants } from '../../services/accounting/grants.ts';
import type { GrantChange } from '../../services/accounting/quota-events.ts';
import { commandLineActor } from '../../services/identity/actor.ts';
import { type LedgerVerification, verifyLedger } from '../../store/ledger/verify-ledger.ts';
import type { OperatorContext } from './operator.ts';
import { parseReason } from './reason.ts';

interface AdminActionOptions {
  reason: string;
  /** The name that is recorded in the ledger and in the audit trail. */
  actor: string;
  key?: string;
}

/** Changes the grants of a project and prints the accounts. Access to the data folder makes the caller an administrator. */
async function change(
  { config, withDatabase, print }: OperatorContext,
  projectPath: string,
  { actor: name, key = randomUUID() }: AdminActionOptions,
  grantChange: GrantChange,
): Promise<void> {
  const [hpc = '', project = '', ...rest] = projectPath.split('/');
  if (project === '' || rest.length > 0) {
    const hint = 'Write it as hpc_one/proj_hpc_one_01.';
    throw new BursarError('invalid_argument', `"${projectPath}" is not a project. ${hint}`);
  }
  const actor = commandLineActor(name);
  const idempotency = { userId: actor.userId, key, content: [projectPath, grantChange] };
  const accounts = await withDatabase((db) => {
    // A server that runs finds the events when it polls.
    const userTopic = { publish: () => undefined };
    const deps = { db, systems: toHpcSystems(config), now: Date.now, userTopic };
    return changeGrants(deps, { hpc, project }, grantChange, { actor, idempotency });
  });
  print(`${JSON.stringify(accounts, null, 2)}\n`);
}

export interface GrantOptions extends AdminActionOptions {
  user?: string;
  time?: string;
  space?: string;
  withdraw: boolean;
  fromPool: boolean;
}

export async function grant(context: OperatorContext, projectPath: string, options: GrantOptions): Promise<void> {
  const { user = null } = options;
  const kind = options.withdraw ? 'withdraw' : 'top_up';
  const source = options.fromPool ? 'pool' : 'new';
  const reason = parseReason(options.reason);
  await change(context, projectPath, options, { kind, user, source, ...parseAmount(options), reason });
}

export interface TransferOptions extends AdminActionOptions {
  from: string;
  to: string;
  time?: string;
  space?: string;
}

export async function transfer(context: OperatorContext, projectPath: string, options: TransferOptions): Promise<void> {
  const { from, to } = options;
  const reason = parseReason(options.reason);
  await change(context, projectPath, options, { kind: 'transfer', from, to, ...parseAmount(options), reason });
}

export interface RefundOptions extends AdminActionOptions {
  job: string;
  time: string;
}

export async function refund(context: OperatorContext, projectPath: string, options: RefundOptions): Promise<void> {
  const { job, time } = options;
  const reason = parseReason(options.reason);
  await change(context, projectPath, options, { kind: 'refund', job_id: job, amount: parseWholeNumber(time), reason });
}

export async function verify(
  { withDatabase, print, fail }: OperatorContext,
  options: { json: boolean },
): Promise<void> {
  const verification = await withDatabase(verifyLedger);
  if (options.json) print(`${JSON.stringify(verification, null, 2)}\n`);
  else print(formatVerification(verification));
  if (!verification.balanced) fail();
}

export function formatVerification({ balanced, accounts, entries, problems }: LedgerVerification): string {
  if (balanced) return `The ledger balances: ${accounts} accounts, ${entries} entries.\n`;
  return `The ledger does not balance:\n${problems.map((problem) => `  ${problem}\n`).join('')}`;
}

function parseAmount({ time, space }: { time?: string; space?: string }) {
  if ((time === undefined) === (space === undefined)) {
    throw new BursarError('invalid_argument', 'Give either --time in seconds or --space in KB.');
  }
  return time === undefined
    ? { resource: 'space' as const, amount: parseWholeNumber(space ?? '') }
    : { resource: 'time' as const, amount: parseWholeNumber(time) };
}

function parseWholeNumber(text: string): number {
  if (!/^[1-9]\d{0,11}$/.test(text)) {
    throw new BursarError('invalid_argument', `"${text}" is not a positive whole number of up to 12 digits.`);
  }
  return Number(text);
}
