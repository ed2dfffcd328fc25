import { randomUUID } from 'node:crypto';
import { toHpcSystems } from '../../config/hpc-systems.ts';
import { BursarError } from '../../domain/errors.ts';
import { type AdminCommand, type AdminService, createAdminService } from '../../services/accounting/admin-service.ts';
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

type Project = { hpc: string; project: string };

/** Runs one administrative action and prints the result. Access to the data folder makes the caller an administrator. */
async function runAdminAction<Body extends object>(
  { config, withDatabase, print }: OperatorContext,
  projectPath: string,
  action: string,
  { reason, actor, key }: AdminActionOptions,
  body: Body,
  run: (service: AdminService, project: Project, command: AdminCommand<Body & { reason: string }>) => Promise<unknown>,
): Promise<void> {
  const [hpc = '', project = '', ...rest] = projectPath.split('/');
  if (project === '' || rest.length > 0) {
    const hint = 'Write it as hpc_one/proj_hpc_one_01.';
    throw new BursarError('invalid_argument', `"${projectPath}" is not a project. ${hint}`);
  }
  const command = {
    actor: commandLineActor(actor),
    key: key ?? randomUUID(),
    target: `${action} ${projectPath}`,
    body: { ...body, reason: parseReason(reason) },
  };
  const result = await withDatabase((db) =>
    run(
      createAdminService({
        db,
        systems: toHpcSystems(config),
        now: Date.now,
        // A server that runs finds the events when it polls.
        publish: () => undefined,
        verifyLedger: () => verifyLedger(db),
      }),
      { hpc, project },
      command,
    ),
  );
  print(`${JSON.stringify(result, null, 2)}\n`);
}

export interface GrantOptions extends AdminActionOptions {
  user?: string;
  time?: string;
  space?: string;
  withdraw: boolean;
  fromPool: boolean;
}

export async function grant(context: OperatorContext, projectPath: string, options: GrantOptions): Promise<void> {
  const { user } = options;
  const kind = options.withdraw ? 'withdraw' : 'top_up';
  const body = { kind, ...parseAmount(options), source: options.fromPool ? 'pool' : 'new' } as const;
  await runAdminAction(context, projectPath, `grant ${user ?? 'pool'}`, options, body, (service, project, command) =>
    user === undefined ? service.changePool(project, command) : service.changeCap(project, user, command),
  );
}

export interface TransferOptions extends AdminActionOptions {
  from: string;
  to: string;
  time?: string;
  space?: string;
}

export async function transfer(context: OperatorContext, projectPath: string, options: TransferOptions): Promise<void> {
  const body = { from: options.from, to: options.to, ...parseAmount(options) };
  await runAdminAction(context, projectPath, 'transfer', options, body, (service, project, command) =>
    service.transfer(project, command),
  );
}

export interface RefundOptions extends AdminActionOptions {
  job: string;
  time: string;
}

export async function refund(context: OperatorContext, projectPath: string, options: RefundOptions): Promise<void> {
  const body = { job_id: options.job, amount: parseWholeNumber(options.time) };
  await runAdminAction(context, projectPath, 'refund', options, body, (service, project, command) =>
    service.refund(project, command),
  );
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
