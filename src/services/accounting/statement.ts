import type { Static } from 'typebox';
import { type AccountStatement, publicStatement, type StatementSchema } from '../../contract/statement.ts';
import { calculateBurnRate } from '../../domain/accounting/burn-rate.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Db } from '../../store/database/handle.ts';
import type { Resource } from '../../store/database/tables.ts';
import { findMember } from '../../store/identity/members.ts';
import {
  getBalanceBefore,
  listMovements,
  type MovementRecord,
  type StatementRange,
} from '../../store/ledger/statements.ts';
import { type CommonDeps, type ProjectScope, requireProject, requireSystem } from '../scope.ts';
import { quotaUnknown } from './read-quotas.ts';

/** Every movement on a user's accounts in a project, with the balance after each. */
export async function readStatement(
  deps: CommonDeps,
  userId: string,
  scope: ProjectScope,
  { from = 0, to }: Partial<StatementRange>,
): Promise<Static<typeof StatementSchema>> {
  const { db } = deps;
  const project = await requireProject(deps, scope);
  if ((await findMember(db, userId, project.id)) === undefined) throw quotaUnknown(userId, scope.project);
  const now = deps.now();
  const range = { from, to: to ?? now + 1 };
  if (range.to <= range.from) throw new BursarError('bad_request', '"to" must be later than "from".');
  const readResource = (resource: Resource) => readAccount(db, { projectId: project.id, userId, resource }, range);
  const time = await readResource('time');
  const end = Math.min(now, range.to);
  const used = time.movements.reduce((total, movement) => total + movement.used, 0);
  const firstAt = time.movements[0]?.at ?? end;
  const rate = calculateBurnRate(used, Math.max(range.from, firstAt), end, time.closing);
  return publicStatement({
    user: userId,
    hpc: project.hpc,
    charge: requireSystem(deps.systems, project.hpc).charge,
    project: project.name,
    ...range,
    time: { ...time, ...rate },
    space: await readResource('space'),
  });
}

async function readAccount(
  db: Db,
  account: { projectId: number; userId: string; resource: Resource },
  range: StatementRange,
): Promise<AccountStatement> {
  const opening = await getBalanceBefore(db, account, range.from);
  let balance = opening;
  const movements = (await listMovements(db, account, range)).flatMap(splitSettlement).map((movement) => {
    balance += movement.change;
    return { ...movement, balance };
  });
  return { opening, closing: balance, movements };
}

/**
 * The ledger settles a hold in one entry. Its two movements read like those of a bank: the hold is released, which adds to
 * the balance, and the usage is charged, which takes from it.
 */
function splitSettlement(movement: MovementRecord): MovementRecord[] {
  const { kind, change, used } = movement;
  const released = change + used;
  if (kind !== 'charge' || released === 0) return [movement];
  return [
    { ...movement, kind: 'release', change: released, used: 0 },
    { ...movement, change: -used },
  ];
}
