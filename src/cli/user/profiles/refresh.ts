import type { Environment } from '../../host.ts';
import { CommandError } from '../errors.ts';
import { requestToken } from './oauth.ts';
import { type Profile, updateProfiles } from './store.ts';

/** A token is renewed this long before it ends, so that a request under way does not fail. */
const refreshBeforeMs = 60_000;

export function needsRefresh({ expires_at: expiresAt, issuer }: Profile, nowMs: number): boolean {
  if (issuer?.refresh_token === undefined || expiresAt === undefined) return false;
  return new Date(expiresAt).getTime() - nowMs < refreshBeforeMs;
}

/**
 * Renews the token of a profile at its OpenID provider. Commands that run at the same time renew it once: many providers
 * accept a refresh token only once, and end the whole sign-in if it is used again.
 */
export async function refreshProfile(env: Environment, name: string, now: () => number): Promise<Profile> {
  return await updateProfiles(env, async ({ profiles }) => {
    const profile = profiles[name];
    if (profile === undefined)
      throw new CommandError('notSignedIn', `The profile "${name}" is gone.`, 'Run: bursar login');
    // Another command may have renewed it while this one waited for the lock.
    if (profile.issuer?.refresh_token === undefined || !needsRefresh(profile, now())) return profile;
    const { client_id: clientId, token_endpoint: endpoint, refresh_token: refreshToken } = profile.issuer;
    const result = await requestToken(endpoint, {
      grant_type: 'refresh_token',
      refresh_token: refreshToken,
      client_id: clientId,
    });
    if ('error' in result) {
      const cause = `Your sign-in at ${profile.issuer.issuer} has ended (${result.description}).`;
      throw new CommandError('notSignedIn', cause, `Run: bursar login ${profile.url}`);
    }
    const renewed: Profile = {
      ...profile,
      token: result.accessToken,
      expires_at: result.expiresInSeconds === undefined ? undefined : isoTime(now() + result.expiresInSeconds * 1000),
      issuer: { ...profile.issuer, refresh_token: result.refreshToken ?? refreshToken },
    };
    profiles[name] = renewed;
    return renewed;
  });
}

const isoTime = (ms: number) => new Date(ms).toISOString();
