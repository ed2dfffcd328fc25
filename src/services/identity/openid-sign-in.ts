import type { Configuration } from 'openid-client';
import type { OidcConfig } from '../../config/oidc-schema.ts';
import { BursarError } from '../../domain/errors.ts';
import { msPerMinute } from '../../domain/units.ts';
import { inTransaction } from '../../store/database/transaction.ts';
import { findSessionByHash } from '../../store/identity/sessions.ts';
import { insertSignInAttempt, takeSignInAttempt } from '../../store/identity/sign-ins.ts';
import type { ServiceDeps } from '../service-deps.ts';
import { findOrCreateUser, type IdentityUserDeps } from './identity-user.ts';
import { toIdentity } from './oidc/claims.ts';
import { loadClient } from './oidc/clients.ts';
import { type SessionDeps, type StartedSession, startSession, type Visitor } from './sessions.ts';
import { createSecret, hashToken } from './tokens.ts';

type OpenIdSignInDeps = SessionDeps & IdentityUserDeps & Pick<ServiceDeps, 'providers' | 'oidcClients'>;

/** An issuer with which people can sign in. */
export interface SignInIssuer {
  /** For people. */
  name: string;
  issuer: string;
}

const attemptMs = 10 * msPerMinute;
const callbackPath = '/sign-in/callback/';
const retryAfterSeconds = 5;

// Sign-in at an OpenID provider: the authorization code flow with PKCE, with Bursar as the client. An `origin` is the scheme
// and host of Bursar, as the browser sees them.

export function listSignInIssuers({ providers }: Pick<OpenIdSignInDeps, 'providers'>): SignInIssuer[] {
  return providers
    .filter(({ clientId }) => clientId !== undefined)
    .map((provider) => ({ name: nameOf(provider), issuer: provider.issuer }));
}

/** Lists the issuers, with the data that programs need to get a token by the device flow of an issuer. */
export async function describeIssuers({ providers, oidcClients }: OpenIdSignInDeps) {
  return await Promise.all(
    providers.map(async (provider) => {
      const configuration = await oidcClients.configure(provider).catch(() => undefined);
      return {
        name: nameOf(provider),
        issuer: provider.issuer,
        client_id: provider.deviceClientId ?? null,
        scope: provider.scopes,
        device_authorization_endpoint: configuration?.serverMetadata().device_authorization_endpoint ?? null,
      };
    }),
  );
}

/** Returns the address of the issuer, and the secret by which the browser is known when it comes back. */
export async function beginOpenIdSignIn(deps: OpenIdSignInDeps, issuer: string, returnTo: string, origin: string) {
  const provider = requireProvider(deps, issuer);
  const client = await loadClient();
  const configuration = await deps.oidcClients.configure(provider).catch(toSignInError);
  const codeVerifier = client.randomPKCECodeVerifier();
  const [state, nonce] = [client.randomState(), client.randomNonce()];
  const url = client.buildAuthorizationUrl(configuration, {
    redirect_uri: new URL(callbackPath, origin).href,
    scope: provider.scopes,
    code_challenge: await client.calculatePKCECodeChallenge(codeVerifier),
    code_challenge_method: 'S256',
    state,
    nonce,
  });
  const secret = createSecret('bursar_attempt_');
  const expiresAt = deps.now() + attemptMs;
  await insertSignInAttempt(deps.db, {
    hash: hashToken(secret),
    issuer,
    state,
    nonce,
    codeVerifier,
    returnTo,
    expiresAt,
  });
  return { url: url.href, secret, maxAgeSeconds: attemptMs / 1000 };
}

/** Completes the sign-in of a browser that the issuer has sent back. An attempt can be completed once. */
export async function completeOpenIdSignIn(
  deps: OpenIdSignInDeps,
  { search, origin, secret }: { search: string; origin: string; secret: string | undefined },
  visitor: Visitor,
): Promise<{ session: StartedSession; returnTo: string }> {
  const { db, now } = deps;
  const attempt = secret === undefined ? undefined : await takeSignInAttempt(db, hashToken(secret));
  if (attempt === undefined || attempt.expiresAt <= now()) {
    const message = 'This sign-in was not started in this browser, or it took too long. Try again.';
    throw new BursarError('sign_in_failed', message);
  }
  const { issuer, state, nonce, codeVerifier, returnTo } = attempt;
  const provider = requireProvider(deps, issuer);
  const { claims, idToken } = await exchangeCode(deps, provider, new URL(callbackPath + search, origin), {
    expectedState: state,
    expectedNonce: nonce,
    pkceCodeVerifier: codeVerifier,
  }).catch(toSignInError);
  const { address, requestId } = visitor;
  const { userId } = await findOrCreateUser(deps, toIdentity(claims, provider), { address, requestId });
  const start = { userId, provider: { issuer, idToken } };
  return { session: await inTransaction(db, (tx) => startSession(tx, deps, visitor, start)), returnTo };
}

/** Returns the URL at which the user signs out at the issuer; null if the issuer has none, or does not respond. */
export async function findSignOutUrl(
  { db, providers, oidcClients }: OpenIdSignInDeps,
  session: string,
  origin: string,
): Promise<string | null> {
  const { issuer, idToken } = (await findSessionByHash(db, hashToken(session))) ?? {};
  const provider = providers.find((candidate) => candidate.issuer === issuer);
  if (provider?.clientId === undefined) return null;
  const configuration = await oidcClients.configure(provider).catch(() => undefined);
  if (configuration?.serverMetadata().end_session_endpoint === undefined) return null;
  const client = await loadClient();
  const target = { post_logout_redirect_uri: new URL('/sign-in/', origin).href };
  return client.buildEndSessionUrl(configuration, { ...target, ...(idToken ? { id_token_hint: idToken } : {}) }).href;
}

function requireProvider({ providers }: OpenIdSignInDeps, issuer: string): OidcConfig {
  const provider = providers.find((candidate) => candidate.issuer === issuer);
  if (provider?.clientId !== undefined) return provider;
  throw new BursarError('sign_in_failed', 'Nobody can sign in with this issuer here. See /sign-in/.');
}

async function exchangeCode(
  { oidcClients }: OpenIdSignInDeps,
  provider: OidcConfig,
  url: URL,
  checks: { expectedState: string; expectedNonce: string; pkceCodeVerifier: string },
) {
  const client = await loadClient();
  const configuration = await oidcClients.configure(provider);
  const tokens = await client.authorizationCodeGrant(configuration, url, { ...checks, idTokenExpected: true });
  const claims = tokens.claims();
  if (claims === undefined || tokens.id_token === undefined) throw new Error('the issuer sent no ID token');
  const userInfo = await readUserInfo(configuration, tokens.access_token, claims.sub);
  return { claims: { ...userInfo, ...claims }, idToken: tokens.id_token };
}

/** Many issuers put name, mail and groups there only. Others refuse an access token that is for Bursar alone. */
async function readUserInfo(configuration: Configuration, accessToken: string, subject: string) {
  if (configuration.serverMetadata().userinfo_endpoint === undefined) return {};
  const client = await loadClient();
  return await client.fetchUserInfo(configuration, accessToken, subject).catch((error) => {
    if (error instanceof client.WWWAuthenticateChallengeError) return {};
    throw error;
  });
}

const nameOf = ({ name, issuer }: OidcConfig) => name ?? new URL(issuer).host;

/** Errors of the issuer that the user cannot correct, or that may be over soon. */
const serverErrors = new Set(['server_error', 'temporarily_unavailable', 'invalid_client', 'unauthorized_client']);

/** Either the issuer has refused the user, or its answer is not valid, or it could not be asked. */
async function toSignInError(cause: unknown): Promise<never> {
  if (cause instanceof BursarError) throw cause;
  const { AuthorizationResponseError, ClientError, ResponseBodyError } = await loadClient();
  const isAnswer = cause instanceof AuthorizationResponseError || cause instanceof ResponseBodyError;
  const status = cause instanceof ResponseBodyError ? cause.status : 400;
  if (isAnswer && status < 500 && !serverErrors.has(cause.error)) {
    const reason = /^\w{1,50}$/.test(cause.error) ? ` (${cause.error})` : '';
    throw new BursarError('sign_in_failed', `The OpenID provider has refused the sign-in${reason}. Try again.`, {
      cause,
    });
  }
  if (!isAnswer && cause instanceof ClientError && invalidAnswers.has(cause.code ?? '')) {
    const message = 'The answer of the OpenID provider does not belong to this sign-in, or is not valid. Try again.';
    throw new BursarError('sign_in_failed', message, { cause });
  }
  const message = 'The OpenID provider cannot be used at the moment. Try again later.';
  throw new BursarError('unavailable', message, { cause, transient: true, retryAfterSeconds });
}

/** The codes of `openid-client` for an answer that is not the expected one. */
const invalidAnswers = new Set([
  'OAUTH_INVALID_RESPONSE',
  'OAUTH_JWT_CLAIM_COMPARISON_FAILED',
  'OAUTH_JWT_TIMESTAMP_CHECK_FAILED',
  'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED',
  'OAUTH_KEY_SELECTION_FAILED',
]);
