import { allScopes } from '../../../domain/identity/policy.ts';
import { requireUser } from '../../../services/identity/access.ts';
import { commandLineActor } from '../../../services/identity/actor.ts';
import { decideDeviceRequest } from '../../../services/identity/device-flow.ts';
import { createSignInLink } from '../../../services/identity/sign-in-links.ts';
import type { OperatorContext } from '../operator.ts';
import { localUrl } from '../server/local-url.ts';

interface SignInOptions {
  user: string;
  /** The name in the audit trail. */
  actor: string;
}

export async function printSignInLink(
  { config, withDatabase, print }: OperatorContext,
  { user, actor }: SignInOptions,
): Promise<void> {
  const { host, port, publicUrl, tls } = config.server;
  const path = await withDatabase((db) => createSignInLink(db, user, commandLineActor(actor), Date.now()));
  print(`${new URL(path, publicUrl ?? localUrl(host, port, tls !== undefined))}\n`);
}

/** Does what the user does at /device/ in a browser. */
export async function confirmDevice(
  { config, withDatabase, print }: OperatorContext,
  userCode: string,
  { user: userId, actor, deny }: SignInOptions & { deny: boolean },
): Promise<void> {
  const { clientName, address, scopes } = await withDatabase(async (db) => {
    await requireUser(db, userId);
    const deps = { db, tokens: config.tokens, now: Date.now };
    const confirming = { ...commandLineActor(actor), scopes: allScopes };
    return await decideDeviceRequest(deps, confirming, { userId, userCode, decision: deny ? 'denied' : 'approved' });
  });
  const who = `"${clientName}" at ${address}`;
  const result = deny ? `gets no token` : `gets a token of user ${userId} with ${[...scopes].join(', ')}`;
  print(`${who} ${result}.\n`);
}
