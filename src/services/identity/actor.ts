import type { SiteRole, TokenScope } from '../../domain/identity/policy.ts';
import type { AuditActor } from '../../store/identity/audit.ts';
import type { TokenLimit } from '../../store/identity/tokens.ts';

/** The user behind a request or a command, and how they reached the service, for the audit trail. */
export interface Actor extends AuditActor {
  role: SiteRole;
}

/** The actor with the credentials that were used. They are not kept, only the hash. */
export interface Caller extends Actor {
  tokenHash: string;
  /** The only system, and the only project, that the token can be used for. */
  limit: TokenLimit;
  scopes: ReadonlySet<TokenScope>;
  /** Expiry of the token in epoch milliseconds. 0 for a token of an OpenID provider, which is checked every time. */
  validUntil: number;
}

/** Access to the data folder makes the user of the command line an administrator. */
export function commandLineActor(name: string): Actor {
  return { userId: name, role: 'administrator', address: null, tokenId: null, sessionId: null, requestId: null };
}
