/** Roles that apply on all systems. Every user has one. */
export const siteRoles = ['user', 'auditor', 'operator', 'administrator'] as const;
export type SiteRole = (typeof siteRoles)[number];

/** A scope limits what a token can be used for. An action needs a scope, and a role of the token's owner. */
export const tokenScopes = [
  'jobs:read',
  'jobs:write',
  'quotas:read',
  'events:read',
  'webhooks:write',
  'admin:read',
  'admin:write',
] as const;
export type TokenScope = (typeof tokenScopes)[number];

const adminScopes: readonly TokenScope[] = ['admin:read', 'admin:write'];

export const allScopes: ReadonlySet<TokenScope> = new Set(tokenScopes);
/** For resources of one's own. */
export const userScopes: ReadonlySet<TokenScope> = new Set(tokenScopes.filter((scope) => !adminScopes.includes(scope)));

export const parseScopes = (text: string) => parseScopeList(text).scopes;

/** Reads scopes that are separated by spaces, and the words that are none. */
export function parseScopeList(text: string): { scopes: ReadonlySet<TokenScope>; unknown: string[] } {
  const words = text.split(/\s+/).filter((word) => word !== '');
  const scopes = tokenScopes.filter((scope) => words.includes(scope));
  return { scopes: new Set(scopes), unknown: words.filter((word) => !(scopes as string[]).includes(word)) };
}

export const formatScopes = (scopes: ReadonlySet<TokenScope>) => [...scopes].join(' ');

/** The roles that may perform an action on resources that are not their own. */
interface OthersRule {
  scope: 'admin:read' | 'admin:write';
  roles: readonly SiteRole[];
  /** Whether the managers of a project may do so in their project. */
  managers?: true;
}

interface Rule {
  description: string;
  /** Everybody may do it with resources of their own, with a token of this scope. Null: with any token. */
  own?: TokenScope | null;
  others?: OthersRule;
}

const readers = ['auditor', 'operator', 'administrator'] as const;
const auditors = ['auditor', 'administrator'] as const;
const operators = ['operator', 'administrator'] as const;
const administrators = ['administrator'] as const;

/** Every action of the service, and who may perform it. Each route names one of them. */
export const policy = {
  'account.read': { description: 'Read your own account', own: null },
  'tokens.read': {
    description: 'List tokens',
    own: null,
    others: { scope: 'admin:read', roles: readers },
  },
  'tokens.write': {
    description: 'Create and revoke tokens; of others: revoke them',
    own: null,
    others: { scope: 'admin:write', roles: operators },
  },
  'sessions.read': {
    description: 'List sessions of browsers',
    own: null,
    others: { scope: 'admin:read', roles: readers },
  },
  'sessions.write': {
    description: 'End sessions of browsers',
    own: null,
    others: { scope: 'admin:write', roles: operators },
  },
  'systems.read': {
    description: 'Read systems, their limits and their health; of others: with the errors of their schedulers',
    own: null,
    others: { scope: 'admin:read', roles: readers },
  },
  'systems.pause': {
    description: 'Pause and resume systems',
    others: { scope: 'admin:write', roles: operators },
  },
  'jobs.read': {
    description: 'List and read jobs and their timelines',
    own: 'jobs:read',
    others: { scope: 'admin:read', roles: readers, managers: true },
  },
  'jobs.submit': { description: 'Submit jobs', own: 'jobs:write' },
  'jobs.cancel': {
    description: 'Cancel jobs',
    own: 'jobs:write',
    others: { scope: 'admin:write', roles: operators, managers: true },
  },
  'jobs.delete': {
    description: 'Delete the files of finished jobs',
    own: 'jobs:write',
    others: { scope: 'admin:write', roles: administrators, managers: true },
  },
  'files.list': {
    description: 'List the files of jobs, with their sizes',
    own: 'jobs:read',
    others: { scope: 'admin:read', roles: auditors, managers: true },
  },
  'files.read': {
    description: 'Read the files and the output of jobs',
    own: 'jobs:read',
    others: { scope: 'admin:read', roles: auditors },
  },
  'quotas.read': {
    description: 'Read quotas, statements, usage and quotes',
    own: 'quotas:read',
    others: { scope: 'admin:read', roles: readers, managers: true },
  },
  'events.read': {
    description: 'Read events',
    own: 'events:read',
    others: { scope: 'admin:read', roles: readers },
  },
  'webhooks.read': {
    description: 'List and read webhooks and their deliveries',
    own: 'events:read',
    others: { scope: 'admin:read', roles: readers },
  },
  'webhooks.write': {
    description: 'Register, change, test and delete webhooks; of others: disable and enable them',
    own: 'webhooks:write',
    others: { scope: 'admin:write', roles: operators },
  },
  'projects.read': {
    description: 'List projects and their members',
    others: { scope: 'admin:read', roles: readers, managers: true },
  },
  'projects.write': {
    description: 'Create and close projects, change their pools, open periods, refund jobs',
    others: { scope: 'admin:write', roles: administrators },
  },
  'members.write': {
    description: 'Add, remove and ban members of a project',
    others: { scope: 'admin:write', roles: administrators },
  },
  'grants.write': {
    description: 'Change the quotas of members within the pool of a project, and transfer between them',
    others: { scope: 'admin:write', roles: administrators, managers: true },
  },
  'users.read': { description: 'List and read users', others: { scope: 'admin:read', roles: readers } },
  'users.write': {
    description: 'Change roles, disable and enable users',
    others: { scope: 'admin:write', roles: administrators },
  },
  'audit.read': { description: 'Read the audit trail', others: { scope: 'admin:read', roles: auditors } },
  'ledger.verify': { description: 'Verify the ledger', others: { scope: 'admin:read', roles: auditors } },
} as const satisfies Record<string, Rule>;

export type Action = keyof typeof policy;
/** The actions on resources of one's own, and those on resources of others. */
export type OwnAction = { [A in Action]: (typeof policy)[A] extends { own: unknown } ? A : never }[Action];
export type OthersAction = { [A in Action]: (typeof policy)[A] extends { others: unknown } ? A : never }[Action];
/** Whose resources a route acts on. */
export type ResourceOwner = 'caller' | 'anyone';

export type Decision =
  | { kind: 'allowed' }
  /** Allowed to managers of the project only. `missingScope` is a scope that their token lacks. */
  | { kind: 'managers_only'; roles: readonly SiteRole[]; missingScope: TokenScope | undefined }
  | { kind: 'role_missing'; roles: readonly SiteRole[] }
  | { kind: 'scope_missing'; missingScope: TokenScope };

/** Decides by role and scope alone. Whether a resource is the caller's own, or in a project of theirs, is checked where it is read. */
export function decide(
  action: Action,
  owner: ResourceOwner,
  { role, scopes }: { role: SiteRole; scopes: ReadonlySet<TokenScope> },
): Decision {
  const { own, others }: Rule = policy[action];
  const scope = owner === 'caller' ? own : others?.scope;
  if (scope === undefined) throw new Error(`no role may perform ${action} on resources of ${owner}`);
  // The role first: a token with more scopes would not help.
  const isAllowed = owner === 'caller' || others?.roles.includes(role);
  const missingScope = scope === null || scopes.has(scope) ? undefined : scope;
  if (isAllowed) return missingScope === undefined ? { kind: 'allowed' } : { kind: 'scope_missing', missingScope };
  const roles = others?.roles ?? [];
  return others?.managers ? { kind: 'managers_only', roles, missingScope } : { kind: 'role_missing', roles };
}

/** The scopes of these with which a user may do something: those of one's own resources, and those that a role can use. */
export function usableScopes(
  scopes: ReadonlySet<TokenScope>,
  { role, isManager }: { role: SiteRole; isManager: boolean },
): ReadonlySet<TokenScope> {
  const rules: Rule[] = Object.values(policy);
  const isUsable = (scope: TokenScope) =>
    userScopes.has(scope) ||
    rules.some(
      ({ others }) => others?.scope === scope && (others.roles.includes(role) || (others.managers && isManager)),
    );
  return new Set([...scopes].filter(isUsable));
}
