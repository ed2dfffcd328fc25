import { publicStatement } from '../../contract/statement.ts';
import type { SubmissionTargetDeps } from '../jobs/submission-target.ts';
import type { PathScope } from '../scope.ts';
import { type QuoteRequest, readQuote } from './quote.ts';
import { readAccountsOfProject, readAccountsOfUser } from './read-accounts.ts';
import { listQuotas, readQuota } from './read-quotas.ts';
import { readStatement } from './statement.ts';
import { readUsage } from './usage.ts';

export type AccountingService = ReturnType<typeof createAccountingService>;

/** Quotas, accounts, quotes, statements and usage. */
export function createAccountingService(deps: SubmissionTargetDeps) {
  const { db, systems, now } = deps;
  return {
    listQuotas: (userId: string | undefined, scope: PathScope) => listQuotas(db, systems, userId, scope, now()),
    readQuota: (userId: string, project: Required<PathScope>) => readQuota(db, systems, userId, project, now()),
    listAccountsOfUser: (userId: string) => readAccountsOfUser(db, systems, userId, now()),
    listAccountsOfProject: (project: Required<PathScope>) => readAccountsOfProject(db, systems, project, now()),
    quote: (request: QuoteRequest) => readQuote(deps, request),
    statement: async (userId: string, project: Required<PathScope>, range: { from?: number; to?: number }) => {
      const { from = 0, to = now() + 1 } = range;
      return publicStatement(await readStatement(db, systems, userId, project, { from, to }, now()));
    },
    usage: (userId: string | undefined, scope: PathScope) => readUsage(db, systems, userId, scope),
  };
}
