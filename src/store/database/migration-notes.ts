/** Describes a migration for operators, before they apply it. */
export interface MigrationNote {
  summary: string;
  /**
   * Whether servers of the version before keep working on the migrated database until they are stopped: nothing that they
   * read or write was removed, renamed or given another meaning.
   */
  isCompatible: boolean;
  /** The tables that are read or rewritten row by row, so that the duration depends on their size. */
  rewrites: readonly string[];
}

/** By name. A test checks that every migration has one. */
export const migrationNotes: Readonly<Record<string, MigrationNote>> = {
  '0001-ground': { summary: 'creates the tables', isCompatible: false, rewrites: [] },
  '0002-systems': { summary: 'stores the status of systems', isCompatible: true, rewrites: [] },
  '0003-events-and-webhooks': {
    summary: 'numbers the events of each user, and adds webhooks',
    isCompatible: false,
    rewrites: ['events', 'users'],
  },
  '0004-lists': { summary: 'adds filters and versions of job lists', isCompatible: false, rewrites: ['jobs'] },
  '0005-leases': { summary: 'replaces leases of jobs by leases of systems', isCompatible: false, rewrites: ['jobs'] },
  '0006-job-versions': { summary: 'stores the version of each job', isCompatible: false, rewrites: ['jobs'] },
  '0007-inputs': { summary: 'stores small zips', isCompatible: false, rewrites: [] },
  '0008-cancel-requests': { summary: 'stores who cancelled a job', isCompatible: false, rewrites: [] },
  '0009-delayed-jobs': { summary: 'stores why a job waits', isCompatible: true, rewrites: ['jobs'] },
  '0010-job-tags': { summary: 'adds tags of jobs', isCompatible: true, rewrites: [] },
  '0011-unfinished-jobs': {
    summary: 'counts the unfinished jobs of users and accounts',
    isCompatible: false,
    rewrites: ['jobs', 'holds', 'accounts', 'users'],
  },
  '0012-stopped-webhooks': {
    summary: 'stores who disabled a webhook, and classes instead of statuses of its attempts',
    isCompatible: false,
    rewrites: ['webhooks', 'deliveries'],
  },
  '0013-monthly-usage': { summary: 'sums up the usage by month', isCompatible: false, rewrites: ['entries'] },
  '0014-identity': {
    summary: 'replaces the flag of administrators by scopes',
    isCompatible: false,
    rewrites: ['tokens'],
  },
  '0015-audit-chain': { summary: 'chains the audit trail by hashes', isCompatible: false, rewrites: ['audit'] },
  '0016-identities': { summary: 'stores the groups of identities', isCompatible: true, rewrites: ['memberships'] },
  '0017-sign-in': { summary: 'adds sessions of browsers', isCompatible: true, rewrites: [] },
  '0018-token-notices': { summary: 'stores notices about ending tokens', isCompatible: true, rewrites: ['tokens'] },
  '0019-traces-and-claims': {
    summary: 'stores the trace of a submission, and since when it is being made',
    isCompatible: true,
    rewrites: [],
  },
  '0020-response-secrets': {
    summary: 'removes the secrets of webhooks from stored responses',
    isCompatible: true,
    rewrites: [],
  },
  '0021-indexes': {
    summary: 'indexes the ids of jobs, the usage by project, and the audit trail by actor and time',
    isCompatible: true,
    rewrites: ['jobs', 'monthly_usage', 'audit'],
  },
};
