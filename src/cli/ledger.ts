import { randomUUID } from 'node:crypto';
import { hpcSystems } from '../config/hpc-systems.ts';
import type { Config } from '../config/schema.ts';
import { BursarError } from '../domain/errors.ts';
import { adminService } from '../services/accounting/admin-service.ts';
import { verifyLedger } from '../store/ledger/verify-ledger.ts';
import { exitCodes } from './exit-codes.ts';
import { withDatabase } from './with-database.ts';

interface ActOptions {
  reason: string;
  /** The name under which the act stands in the ledger and in the audit trail. */
  actor: string;
  key?: string;
}

type Desk = ReturnType<typeof adminService>;
type Command<Body> = { actor: { userId: string; admin: true }; key: string; target: string; body: Body };

/** Whoever can run the command line on the data folder is an administrator. */
async function act<Body extends object>(
  config: Config,
  place: string,
  target: string,
  { reason, actor, key }: ActOptions,
  body: Body,
  carryOut: (
    desk: Desk,
    place: { hpc: string; project: string },
    command: Command<Body & { reason: string }>,
  ) => Promise<unknown>,
): Promise<void> {
  const [hpc = '', project = '', ...rest] = place.split('/');
  if (project === '' || rest.length > 0) {
    throw new BursarError('invalid_argument', `"${place}" is not a project. Write it as hpc_one/proj_hpc_one_01.`);
  }
  if (!/\S\s*\S\s*\S/.test(reason) || reason.length > 500) {
    throw new BursarError('invalid_argument', 'Give a reason of 3 to 500 characters with --reason.');
  }
  const result = await withDatabase(config, (db) => {
    const command = {
      actor: { userId: actor, admin: true as const },
      key: key ?? randomUUID(),
      target: `${target} ${place}`,
      body: { ...body, reason },
    };
    return carryOut(adminService(db, hpcSystems(config), Date.now), { hpc, project }, command);
  });
  process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
}

export interface GrantOptions extends ActOptions {
  user?: string;
  time?: string;
  space?: string;
  withdraw: boolean;
  fromPool: boolean;
}

export async function grant(config: Config, place: string, options: GrantOptions): Promise<void> {
  const { user } = options;
  const kind = options.withdraw ? 'withdraw' : 'top_up';
  const body = { kind, ...amountOf(options), source: options.fromPool ? 'pool' : 'new' } as const;
  await act(config, place, `grant ${user ?? 'pool'}`, options, body, (desk, project, command) =>
    user === undefined ? desk.grantPool(project, command) : desk.grantCap(project, user, command),
  );
}

export interface TransferOptions extends ActOptions {
  from: string;
  to: string;
  time?: string;
  space?: string;
}

export async function transfer(config: Config, place: string, options: TransferOptions): Promise<void> {
  const body = { from: options.from, to: options.to, ...amountOf(options) };
  await act(config, place, 'transfer', options, body, (desk, project, command) => desk.transfer(project, command));
}

export interface RefundOptions extends ActOptions {
  job: string;
  time: string;
}

export async function refund(config: Config, place: string, options: RefundOptions): Promise<void> {
  const body = { job_id: options.job, amount: wholeNumber(options.time) };
  await act(config, place, 'refund', options, body, (desk, project, command) => desk.refund(project, command));
}

export async function verify(config: Config, options: { json: boolean }): Promise<void> {
  const proof = await withDatabase(config, verifyLedger);
  const { balanced, accounts, entries, problems } = proof;
  if (options.json) process.stdout.write(`${JSON.stringify(proof, null, 2)}\n`);
  else if (balanced) process.stdout.write(`The books balance: ${accounts} accounts, ${entries} entries.\n`);
  else process.stdout.write(`The books do not balance:\n${problems.map((problem) => `  ${problem}\n`).join('')}`);
  if (!balanced) process.exitCode = exitCodes.failure;
}

function amountOf({ time, space }: { time?: string; space?: string }) {
  if ((time === undefined) === (space === undefined)) {
    throw new BursarError('invalid_argument', 'Name one amount: --time in seconds, or --space in KB.');
  }
  return time === undefined
    ? { resource: 'space' as const, amount: wholeNumber(space ?? '') }
    : { resource: 'time' as const, amount: wholeNumber(time) };
}

function wholeNumber(text: string): number {
  if (!/^[1-9]\d{0,11}$/.test(text)) {
    throw new BursarError('invalid_argument', `"${text}" is not a whole number of up to 12 digits.`);
  }
  return Number(text);
}
