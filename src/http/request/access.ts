import type { FastifyReply, FastifyRequest } from 'fastify';
import { BursarError } from '../../domain/errors.ts';
import {
  type Action,
  decide,
  type ResourceOwner,
  type SiteRole,
  type TokenScope,
} from '../../domain/identity/policy.ts';
import { type AccessDeps, isManager as findIsManager } from '../../services/identity/access.ts';
import type { Caller } from '../../services/identity/actor.ts';
import type { Credentials } from '../../services/identity/authenticate.ts';
import type { RateLimits } from '../limits/rate-limits.ts';
import { type Browser, formTokenOf } from './browser.ts';
import { projectOf, scopeOf } from './path-params.ts';

/** Turns the token or the session of a request into the caller. Rejects if it is not valid. */
export type Authenticate = (request: FastifyRequest) => Promise<Caller>;

/** The cookies of a request with an Authorization header do not count, and are not parsed. */
export function credentialsOf(request: FastifyRequest, browser: Browser): Credentials {
  const { headers, ip, id } = request;
  const { authorization } = headers;
  const session = authorization === undefined ? browser.cookieOf(request, 'session') : undefined;
  return { authorization, session, address: ip, requestId: id };
}

/** Methods that change nothing, as far as browsers are concerned. */
const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS']);

export interface AuthenticationDeps {
  authenticate: Authenticate;
  rates: RateLimits;
  browser: Browser;
}

/** Sets the caller of a request, or rejects the request before its body is read. */
export async function requireCaller(
  request: FastifyRequest,
  reply: FastifyReply,
  { authenticate, rates, browser }: AuthenticationDeps,
): Promise<void> {
  const caller = await authenticate(request).catch((error) => {
    const isInvalid = error instanceof BursarError && error.code === 'token_invalid';
    rates[isInvalid ? 'invalidToken' : 'anonymous'](request, reply);
    throw error;
  });
  rates.caller(reply, caller);
  request.caller = caller;
  // A browser adds the cookie to requests of other sites too.
  if (caller.sessionId !== null && !safeMethods.has(request.method)) browser.requireOwnScript(request);
}

export function callerOf(request: FastifyRequest): Caller {
  if (request.caller === null) throw new Error('this route does not require a token');
  return request.caller;
}

export type SignedIn = NonNullable<Awaited<ReturnType<typeof findSignedIn>>>;

/** The user who is signed in in this browser, with the secret of the session, or null. For pages, which need no token. */
export async function findSignedIn(
  request: FastifyRequest,
  { browser, authenticate }: Pick<AuthenticationDeps, 'browser' | 'authenticate'>,
) {
  const session = browser.cookieOf(request, 'session');
  if (session === undefined) return null;
  const caller = await authenticate(request).catch((error) => {
    // A disabled user must not keep others from signing in with the same browser.
    if (error instanceof BursarError && ['session_ended', 'user_disabled'].includes(error.code)) return null;
    throw error;
  });
  // The request has an Authorization header too.
  if (caller === null || caller.sessionId === null) return null;
  // For the access log and the audit trail.
  request.caller = caller;
  return { caller: { ...caller, sessionId: caller.sessionId }, session, formToken: formTokenOf(session) };
}

/** Returns whether the caller is allowed as a manager of the project only. */
export async function authorize(
  request: FastifyRequest,
  { action, owner }: { action: Action; owner: ResourceOwner },
  deps: AccessDeps,
): Promise<boolean> {
  const caller = callerOf(request);
  requireWithinLimit(request, caller, action);
  const decision = decide(action, owner, caller);
  if (decision.kind === 'allowed') return false;
  if (decision.kind === 'scope_missing') throw scopeMissing(decision.missingScope);
  const project = projectOf(request);
  const isManager =
    decision.kind === 'managers_only' && project !== undefined && (await findIsManager(deps, caller.userId, project));
  if (!isManager) {
    const { query = {} } = request.routeOptions.config.route ?? {};
    const isUnnamed = project === undefined && 'project_name' in query;
    throw roleMissing(decision.roles, decision.kind !== 'managers_only' ? 'none' : isUnnamed ? 'unnamed' : 'named');
  }
  if (decision.missingScope !== undefined) throw scopeMissing(decision.missingScope);
  return true;
}

/** A token for one system or project can be used only for paths that name it, and to manage itself. */
function requireWithinLimit(request: FastifyRequest, { limit }: Caller, action: Action): void {
  if (limit.hpc === null || accountActions.has(action)) return;
  const { hpc, project } = scopeOf(request);
  if (hpc === limit.hpc && (limit.project === null || project === limit.project)) return;
  const name = limit.project === null ? limit.hpc : `${limit.hpc}/${limit.project}`;
  const message = `This token can be used for ${name} only. Use a path with ${name}, or another token.`;
  throw new BursarError('insufficient_scope', message, { details: { limited_to: name } });
}

const accountActions = new Set<Action>([
  'account.read',
  'tokens.read',
  'tokens.write',
  'sessions.read',
  'sessions.write',
]);

function scopeMissing(scope: TokenScope): BursarError {
  const message = `This token does not have the scope ${scope}. Use a token that has it.`;
  return new BursarError('insufficient_scope', message, { details: { scope } });
}

/** `unnamed`: managers are allowed if the request names their project, and this one names none. */
function roleMissing(roles: readonly SiteRole[], managers: 'none' | 'named' | 'unnamed'): BursarError {
  const forManagers = managers !== 'none';
  const allowed = [...roles.map((role) => `${role}s`), ...(forManagers ? ['managers of the project'] : [])];
  const advice =
    managers === 'unnamed'
      ? 'A manager names the project, with its system: hpc and project_name.'
      : 'Ask an administrator for the role.';
  const message = `This request is for ${new Intl.ListFormat('en-GB').format(allowed)}. ${advice}`;
  const required = [...roles, ...(forManagers ? ['project_manager'] : [])].join(' ');
  return new BursarError('forbidden', message, { details: { required_role: required } });
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Null on routes that need no token. */
    caller: Caller | null;
    /** The caller is allowed as a manager of the project in the path or query only. */
    isManager: boolean;
  }
}
