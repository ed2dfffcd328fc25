import { publicProjectAccount } from '../../contract/ledger.ts';
import { type CurrentAccount, listProjectAccounts, readQuotaRows } from '../../store/ledger/quotas.ts';
import { type CommonDeps, type ProjectScope, requireProject, type Systems } from '../scope.ts';

/** The accounts of a user on all systems: the user's caps, and the pools of the same projects. */
export async function listAccountsOfUser({ db, systems, now }: CommonDeps, userId: string) {
  const rows = await readQuotaRows(db, { userId }, now());
  return rows.toSorted(byProject).map((account) => toPublic(systems, account));
}

/** The accounts of a project: its pools, and the caps of all its members. */
export async function listAccountsOfProject(deps: CommonDeps, scope: ProjectScope) {
  const { id, hpc, name } = await requireProject(deps, scope);
  const accounts = await listProjectAccounts(deps.db, id, deps.now());
  return accounts.map((account) => toPublic(deps.systems, { ...account, hpc, name }));
}

/** The pool before the cap, and time before space. */
function byProject(a: CurrentAccount & { projectId: number }, b: CurrentAccount & { projectId: number }): number {
  return a.projectId - b.projectId || compare(a.holder, b.holder) || compare(b.resource, a.resource);
}

const compare = (a: string, b: string) => (a < b ? -1 : Number(a > b));

/** A system that is no longer configured may still have accounts. */
function toPublic(systems: Systems, account: CurrentAccount & { hpc: string; name: string }) {
  return publicProjectAccount({ ...account, charge: systems.get(account.hpc)?.charge ?? 'wall' });
}
