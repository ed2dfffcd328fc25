import type { OidcConfig } from '../../config/oidc-schema.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Db } from '../../store/database/handle.ts';
import { listIdentities } from '../../store/identity/identities.ts';

/** Throws if the groups at an OpenID provider decide about the role of the user. */
export async function requireRoleDecidedHere(db: Db, providers: readonly OidcConfig[], userId: string): Promise<void> {
  const deciding = new Set(providers.filter(({ roles }) => roles !== undefined).map(({ issuer }) => issuer));
  if (deciding.size === 0) return;
  const identity = (await listIdentities(db, userId)).find(({ issuer }) => deciding.has(issuer));
  if (identity === undefined) return;
  const message = `The groups at ${identity.issuer} decide about the role of user ${userId}. Change them there.`;
  throw new BursarError('conflict', message);
}
