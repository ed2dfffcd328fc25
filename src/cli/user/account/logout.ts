import { ApiError } from '#client';
import type { Context } from '../context.ts';
import { exitCodes } from '../exit-codes.ts';
import { createClient, unknownProfile } from '../profiles/connect.ts';
import { postForm } from '../profiles/oauth.ts';
import { type Profile, updateProfiles } from '../profiles/store.ts';

/** Removes a profile, and revokes the token that `login` has got for it. */
export async function run(context: Context): Promise<void> {
  const { env, options } = context;
  const { name, profile } = await updateProfiles(env, (file) => {
    const chosen = options.profile ?? (env.BURSAR_PROFILE || file.current);
    const removed = file.profiles[chosen];
    if (removed === undefined) throw unknownProfile(chosen, Object.keys(file.profiles));
    delete file.profiles[chosen];
    if (file.current === chosen) file.current = Object.keys(file.profiles)[0] ?? 'default';
    return { name: chosen, profile: removed };
  });
  try {
    await revoke(context, profile);
    context.note(`Signed out: the profile "${name}" is removed.`);
  } catch (error) {
    const until = profile.expires_at === undefined ? '' : ` until ${profile.expires_at}`;
    context.note(`The profile "${name}" is removed, but its token could not be revoked and stays valid${until}:`);
    context.note((error as Error).message);
    context.exitCode = error instanceof ApiError ? exitCodes.failure.code : exitCodes.serverUnavailable.code;
  }
}

async function revoke(context: Context, { url, token, token_id: tokenId, issuer }: Profile): Promise<void> {
  if (tokenId !== undefined) {
    const { api } = createClient(context.connection, url, token);
    await api.revokeToken({ path: { token_id: String(tokenId) } }).catch((error: unknown) => {
      // The token has ended already.
      if (!(error instanceof ApiError && error.status === 401)) throw error;
    });
  }
  // RFC 7009. The end of the refresh token is the end of the sign-in; the access token lives for minutes.
  if (issuer?.refresh_token !== undefined && issuer.revocation_endpoint !== undefined)
    await postForm(issuer.revocation_endpoint, {
      token: issuer.refresh_token,
      token_type_hint: 'refresh_token',
      client_id: issuer.client_id,
    });
}
