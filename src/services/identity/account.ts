import type { Static } from 'typebox';
import type { MeSchema, TokenBody, TokenSchema, TokenWithSecretSchema } from '../../contract/account.ts';
import { toIsoTime, toIsoTimeOrNull } from '../../contract/fields.ts';
import { BursarError } from '../../domain/errors.ts';
import { usableScopes } from '../../domain/identity/policy.ts';
import { publicSystemName } from '../../domain/systems/system.ts';
import { msPerDay } from '../../domain/units.ts';
import { inTransaction } from '../../store/database/transaction.ts';
import { insertAudit } from '../../store/identity/audit.ts';
import { listMemberships } from '../../store/identity/members.ts';
import * as store from '../../store/identity/tokens.ts';
import { findUser } from '../../store/identity/users.ts';
import { type IdempotentRequest, runOnce } from '../idempotency.ts';
import { type CommonDeps, type ReadDeps, requireScope } from '../scope.ts';
import type { ServiceDeps } from '../service-deps.ts';
import { managesProject, readUsableScopes } from './access.ts';
import type { Actor, Caller } from './actor.ts';
import { RefusedAccess } from './refused-access.ts';
import { issueRequestedToken } from './tokens.ts';

const defaultPageSize = 100;

type TokenDeps = CommonDeps & Pick<ServiceDeps, 'tokens' | 'accessTopic'>;

type Token = Static<typeof TokenSchema>;

export async function readAccount(
  { db }: Pick<TokenDeps, 'db'>,
  { userId, role, scopes, validUntil }: Caller,
): Promise<Static<typeof MeSchema>> {
  const [user, memberships] = await Promise.all([findUser(db, userId), listMemberships(db, userId)]);
  const isManager = managesProject(memberships);
  return {
    user: userId,
    name: user?.name ?? null,
    mail: user?.mail ?? null,
    roles: isManager ? [role, 'project_manager'] : [role],
    scopes: [...usableScopes(scopes, { role, isManager })],
    expires_at: validUntil === 0 || validUntil === Number.POSITIVE_INFINITY ? null : toIsoTime(validUntil),
    projects: memberships.map(({ hpc, project, role: memberRole, status }) => ({
      project_hpc: publicSystemName(hpc),
      project_name: project,
      role: memberRole,
      status,
    })),
  };
}

export async function listTokens(
  { db, now }: TokenDeps,
  userId: string,
  page: { limit?: number; before?: number },
): Promise<Token[]> {
  const records = await store.listTokenPage(db, userId, { limit: defaultPageSize, ...page });
  return records.map((record) => publicToken(record, now()));
}

/**
 * A token of Bursar cannot create one that can do more or lives longer than itself. A person who has signed in, with a
 * session or a token of an OpenID provider, can create one of every life up to `maxDays`.
 */
export async function createToken(
  deps: TokenDeps,
  caller: Caller,
  body: Static<typeof TokenBody>,
  request: IdempotentRequest | null,
): Promise<Static<typeof TokenWithSecretSchema>> {
  const { db, tokens, now } = deps;
  const { userId } = caller;
  const usable = await readUsableScopes(db, userId, caller.scopes);
  const scopes = new Set(body.scopes ?? usable);
  const missing = [...scopes].filter((scope) => !usable.has(scope));
  if (missing.length > 0)
    throw invalid('scopes', `your role and this token have no ${missing.join(', ')} that they could pass on`);
  const limit = await requireLimit(deps, caller, body);
  const days = body.days ?? Math.min(tokens.defaultDays, tokens.maxDays);
  if (days > tokens.maxDays) throw invalid('days', `must be at most ${tokens.maxDays}`);
  const ownExpiry = caller.tokenId === null ? Number.POSITIVE_INFINITY : caller.validUntil;
  const wanted = now() + days * msPerDay;
  if (body.days !== undefined && wanted > ownExpiry)
    throw invalid('days', `a new token cannot live longer than this one, which expires on ${toIsoTime(ownExpiry)}`);
  const expiresAt = Math.min(wanted, ownExpiry);
  let secret: string | undefined;
  // The stored response is without the secret: the database has no secret of a token, and no other token gets it.
  const created = await runOnce(db, request, now(), async (tx) => {
    const newToken = { userId, name: body.name, scopes, limit, expiresAt };
    const { id, token } = await issueRequestedToken(tx, newToken, { actor: caller }, now());
    secret = token;
    const record = await store.findToken(tx, id);
    if (record === undefined) throw new Error('the new token is not stored');
    return publicToken(record, now());
  });
  if (secret === undefined) throw alreadyCreated(created.id);
  return { ...created, token: secret };
}

async function requireLimit(
  deps: ReadDeps,
  caller: Caller,
  { hpc, project_name: project }: Static<typeof TokenBody>,
): Promise<store.TokenLimit> {
  if (hpc === undefined && project !== undefined) throw invalid('project_name', 'needs hpc');
  if (hpc === undefined) return caller.limit;
  await requireScope(deps, { hpc, ...(project === undefined ? {} : { project }) });
  const limit = { hpc, project: project ?? null };
  if (isWider(limit, caller.limit))
    throw invalid('hpc', 'this token is limited to another system or project, or to one project');
  return limit;
}

/** A token can revoke itself, and others that can do no more than itself. */
export async function revokeOwnToken(deps: TokenDeps, caller: Caller, id: number): Promise<Token> {
  const token = await store.findToken(deps.db, id);
  if (token?.userId !== caller.userId) throw tokenUnknown(token !== undefined);
  if (id !== caller.tokenId && (!token.scopes.isSubsetOf(caller.scopes) || isWider(token.limit, caller.limit))) {
    const message = 'This token cannot revoke one that can do more. Use a token with the same scopes and systems.';
    throw new BursarError('forbidden', message);
  }
  return await revokeToken(deps, caller, caller.userId, id);
}

/** Also for administrators, who revoke tokens of others. Only the command line asks for a reason. */
export async function revokeToken(
  { db, now, accessTopic }: Pick<TokenDeps, 'db' | 'now' | 'accessTopic'>,
  actor: Actor,
  userId: string,
  id: number,
  reason?: string,
): Promise<Token> {
  const at = now();
  const revoked = await inTransaction(db, async (tx) => {
    const token = await store.findToken(tx, id);
    if (token?.userId !== userId) throw tokenUnknown(token !== undefined);
    await store.revokeToken(tx, id, at);
    const details = { name: token.name, ...(reason !== undefined && { reason }) };
    await insertAudit(tx, { actor, action: 'token.revoke', subject: `${userId}/${id}`, details, at });
    return publicToken({ ...token, revokedAt: token.revokedAt ?? at }, at);
  });
  accessTopic.publish(userId);
  return revoked;
}

/** Revokes all tokens of a user that are valid, and returns them. */
export async function revokeAllTokens(deps: TokenDeps, actor: Actor, userId: string): Promise<Token[]> {
  const revoked: Token[] = [];
  for (const record of await store.listTokens(deps.db, userId)) {
    if (publicToken(record, deps.now()).state !== 'valid') continue;
    revoked.push(await revokeToken(deps, actor, userId, record.id));
  }
  return revoked;
}

/** Whether a token with this limit can be used where one with the other limit cannot. */
function isWider(limit: store.TokenLimit, other: store.TokenLimit): boolean {
  return (other.hpc !== null && limit.hpc !== other.hpc) || (other.project !== null && limit.project !== other.project);
}

function publicToken(record: store.TokenRecord, now: number): Token {
  const { id, name, scopes, limit, createdAt, expiresAt, revokedAt, lastUsedOn, lastUsedFrom } = record;
  const isExpired = expiresAt !== null && expiresAt <= now;
  return {
    id,
    name,
    scopes: [...scopes],
    hpc: limit.hpc,
    project_name: limit.project,
    created_at: toIsoTime(createdAt),
    expires_at: toIsoTimeOrNull(expiresAt),
    last_used_on: lastUsedOn,
    last_used_from: lastUsedFrom,
    state: revokedAt !== null ? 'revoked' : isExpired ? 'expired' : 'valid',
  };
}

function tokenUnknown(isOthers: boolean): BursarError {
  const options = isOthers ? { cause: new RefusedAccess('the token of another user') } : {};
  return new BursarError('token_unknown', 'There is no such token. GET /me/tokens/ lists yours.', options);
}

function alreadyCreated(id: number): BursarError {
  const message = `The first request with this Idempotency-Key has created the token ${id}, which is shown only once. If you do not have it, revoke it, and create another one with a new key.`;
  return new BursarError('conflict', message);
}

function invalid(field: string, message: string): BursarError {
  return new BursarError('bad_request', `"${field}": ${message}.`, { fields: [{ field, message }] });
}
