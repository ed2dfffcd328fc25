import type { OidcConfig } from '../../../config/oidc-schema.ts';
import { type SiteRole, siteRoles } from '../../../domain/identity/policy.ts';
import { isUserId } from '../../../domain/identity/user-id.ts';
import type { MemberRole } from '../../../store/identity/members.ts';
import { invalidToken } from './provider-failure.ts';

/** The verified claims of an OpenID provider about a user. */
export interface Identity {
  issuer: string;
  subject: string;
  /** In epoch milliseconds; 0 if the token does not say so. */
  issuedAt: number;
  /** From the configured claim; null if none is configured. */
  userId: string | null;
  name: string | null;
  mail: string | null;
  /** By the groups; null if the provider does not decide about roles. */
  role: SiteRole | null;
  /** By the groups, ordered by project. */
  memberships: readonly { hpc: string; project: string; role: MemberRole }[];
  /** Whether the user leaves projects that the groups no longer name. */
  syncMemberships: boolean;
}

type Claims = Readonly<Record<string, unknown>>;

/** Maps claims as the configuration says. Throws if the claim with the user identifier is configured but missing. */
export function toIdentity(claims: Claims, provider: OidcConfig): Identity {
  const { issuer, claims: names, roles, projects, syncMemberships } = provider;
  const groups = names.groups === undefined ? [] : [readClaim(claims, names.groups)].flat();
  return {
    issuer,
    subject: requireSubject(claims.sub),
    issuedAt: toEpochMs(claims.iat),
    userId: names.user === undefined ? null : requireUserId(readClaim(claims, names.user), names.user),
    name: toText(readClaim(claims, names.name)),
    mail: toText(readClaim(claims, names.mail)),
    role: roles === undefined ? null : highestRole(groups.map((group) => ownValue(roles, group) ?? 'user')),
    memberships: toMemberships(groups.map((group) => ownValue(projects, group)).filter((each) => each !== undefined)),
    syncMemberships,
  };
}

/**
 * The audience says that the token is for Bursar. `azp` or `client_id` is the program that it was issued to, which can be any
 * of the site, unless the configuration lists some.
 */
export function requireClient(claims: Claims, clients: readonly string[] | undefined): void {
  const client = claims.azp ?? claims.client_id;
  if (clients === undefined || clients.includes(String(client))) return;
  throw invalidToken(`Tokens of the client ${JSON.stringify(client ?? null)} are not accepted here.`);
}

export function highestRole(roles: readonly SiteRole[]): SiteRole {
  return siteRoles.findLast((role) => roles.includes(role)) ?? 'user';
}

/** Reads a claim, or follows a dotted path such as `realm_access.roles`. */
function readClaim(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name];
  return name.split('.').reduce<unknown>((value, key) => ownValue(value, key), claims);
}

/** Any other value could be stored as the same text as that of another person. */
function requireSubject(value: unknown): string {
  if (typeof value === 'string' && value !== '' && value.isWellFormed() && !value.includes('\0')) return value;
  throw invalidToken('The token does not say whose it is: its claim "sub" is not a text.');
}

/** The times of a token are seconds, which may have a fraction. */
function toEpochMs(seconds: unknown): number {
  const ms = typeof seconds === 'number' ? Math.floor(seconds * 1000) : 0;
  return Number.isSafeInteger(ms) ? ms : 0;
}

function requireUserId(value: unknown, claim: string): string {
  const userId = typeof value === 'string' || Number.isSafeInteger(value) ? String(value) : '';
  if (isUserId(userId)) return userId;
  throw invalidToken(`The token has no numeric user identifier in its claim "${claim}".`);
}

const maxTextLength = 200;

/** Users choose their names: without control characters, and without halves of characters, which databases would change. */
function toText(value: unknown): string | null {
  if (typeof value !== 'string') return null;
  const text = value.replace(/\p{Cc}+/gu, ' ').trim();
  return text === '' ? null : text.slice(0, maxTextLength).toWellFormed();
}

/** One membership per project. A manager stays one, whatever the other groups say. */
function toMemberships(mapped: readonly OidcConfig['projects'][string][]): Identity['memberships'] {
  const roles = new Map<string, MemberRole>();
  for (const entry of mapped) {
    const { project, role = 'member' } = typeof entry === 'string' ? { project: entry } : entry;
    if (roles.get(project) !== 'manager') roles.set(project, role);
  }
  return [...roles]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([path, role]) => {
      const [hpc = '', project = ''] = path.split('/');
      return { hpc, project, role };
    });
}

function ownValue<T>(value: Readonly<Record<string, T>>, key: unknown): T | undefined;
function ownValue(value: unknown, key: unknown): unknown;
function ownValue(value: unknown, key: unknown): unknown {
  if (typeof value !== 'object' || value === null || typeof key !== 'string' || !Object.hasOwn(value, key)) return;
  return (value as Record<string, unknown>)[key];
}
