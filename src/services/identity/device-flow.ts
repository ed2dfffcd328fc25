import { randomInt } from 'node:crypto';
import type { OAuthErrorCode } from '../../contract/oauth.ts';
import { BursarError } from '../../domain/errors.ts';
import { formatScopes, type TokenScope } from '../../domain/identity/policy.ts';
import { msPerDay, msPerMinute } from '../../domain/units.ts';
import type { Db, Tx } from '../../store/database/handle.ts';
import { inTransaction } from '../../store/database/transaction.ts';
import { insertAudit } from '../../store/identity/audit.ts';
import * as store from '../../store/identity/device-requests.ts';
import { findUser } from '../../store/identity/users.ts';
import type { ServiceDeps } from '../service-deps.ts';
import { readUsableScopes } from './access.ts';
import type { Actor, Caller } from './actor.ts';
import type { Origin } from './apply-claims.ts';
import { createSecret, hashToken, hasRoomForToken, issueRequestedToken, tooManyTokens } from './tokens.ts';

// The device authorization grant (RFC 8628): a program without a browser shows a code, its user confirms the code in a
// signed-in browser, and the program gets a token.

export type DeviceDeps = Pick<ServiceDeps, 'db' | 'tokens' | 'now'>;

export interface DeviceAuthorizationRequest {
  clientName: string;
  scopes: ReadonlySet<TokenScope>;
  address: string;
}

export type PollResult =
  | { kind: 'token'; token: string; expiresInSeconds: number; scopes: ReadonlySet<TokenScope> }
  | { kind: 'error'; error: OAuthErrorCode; description: string };

const lifetimeMs = 10 * msPerMinute;
const intervalSeconds = 5;

/** No vowels, so that no code is a word, and no letters that look alike. */
const userCodeLetters = 'BCDFGHJKLMNPQRSTVWXZ';
const userCodeLength = 8;

export async function startDeviceRequest({ db, now }: DeviceDeps, request: DeviceAuthorizationRequest) {
  const deviceCode = createSecret('bursar_device_');
  const userCode = createUserCode();
  const times = { createdAt: now(), expiresAt: now() + lifetimeMs };
  const hashes = { deviceHash: hashToken(deviceCode), userCodeHash: hashUserCode(userCode) };
  await store.insertDeviceRequest(db, { ...request, ...hashes, ...times, intervalSeconds });
  return { deviceCode, userCode, expiresInSeconds: lifetimeMs / 1000, intervalSeconds };
}

/** Returns the token once, after the user has confirmed the code. */
export async function pollDeviceRequest(deps: DeviceDeps, deviceCode: string, origin: Origin): Promise<PollResult> {
  const { db, now } = deps;
  return await inTransaction(db, async (tx) => {
    const request = await store.lockDeviceRequest(tx, hashToken(deviceCode));
    if (request === undefined) return failure('invalid_grant', 'This device code is unknown, or was used already.');
    if (request.expiresAt <= now()) return failure('expired_token', 'The code has expired. Start again.');
    const { state, userId } = request;
    if (state === 'denied') return failure('access_denied', 'The user has refused the request.');
    if (state === 'approved' && userId !== null) return await deliverToken(tx, deps, request, userId, origin);
    // A program that polls too often must wait longer from then on.
    const isTooEarly = now() - request.lastPolledAt < request.intervalSeconds * 1000;
    await store.storePoll(tx, request.id, now(), request.intervalSeconds + (isTooEarly ? 5 : 0));
    return isTooEarly
      ? failure('slow_down', 'Wait 5 seconds longer between two requests from now on.')
      : failure('authorization_pending', 'The user has not confirmed the code yet. Try again.');
  });
}

async function deliverToken(
  tx: Tx,
  { tokens, now }: DeviceDeps,
  { id, clientName: name, scopes }: store.DeviceRequest,
  userId: string,
  origin: Origin,
): Promise<PollResult> {
  if ((await findUser(tx, userId))?.disabledAt !== null) return failure('access_denied', 'The user is disabled.');
  await store.deleteDeviceRequest(tx, id);
  if (!(await hasRoomForToken(tx, userId, now()))) return failure('access_denied', tooManyTokens);
  const lifeMs = Math.min(tokens.defaultDays, tokens.maxDays) * msPerDay;
  const request = { userId, name, scopes, expiresAt: now() + lifeMs };
  const audit = { actor: { userId, tokenId: null, sessionId: null, ...origin }, details: { device: id } };
  const { token } = await issueRequestedToken(tx, request, audit, now());
  return { kind: 'token', token, expiresInSeconds: lifeMs / 1000, scopes };
}

/** The request that a user is asked to confirm, with the scopes that it would get. */
export async function readDeviceRequest(
  { db, now }: DeviceDeps,
  { userId, scopes }: Pick<Caller, 'userId' | 'scopes'>,
  userCode: string,
): Promise<store.DeviceRequest> {
  const request = await requirePending(db, userCode, now());
  return { ...request, scopes: request.scopes.intersection(await readUsableScopes(db, userId, scopes)) };
}

/** Confirms or refuses a request. It gets no scope that the user does not have here. Of two decisions the first one counts. */
export async function decideDeviceRequest(
  { db, now }: DeviceDeps,
  actor: Actor & Pick<Caller, 'scopes'>,
  { userId, userCode, decision }: { userId: string; userCode: string; decision: 'approved' | 'denied' },
): Promise<store.DeviceRequest> {
  return await inTransaction(db, async (tx) => {
    const request = await requirePending(tx, userCode, now());
    const scopes = request.scopes.intersection(await readUsableScopes(tx, userId, actor.scopes));
    if (!(await store.decideDeviceRequest(tx, request.id, { state: decision, userId, scopes })))
      throw new BursarError('conflict', 'This code was confirmed or refused already. See /me/tokens/.');
    const { clientName: client, address } = request;
    const action = decision === 'approved' ? 'device.approve' : 'device.deny';
    const details = { client, address, scopes: formatScopes(scopes) };
    await insertAudit(tx, { actor, action, subject: `${userId}/${request.id}`, details, at: now() });
    return { ...request, scopes };
  });
}

/** Throws if no request that can be decided has this code. */
async function requirePending(db: Db, userCode: string, now: number): Promise<store.DeviceRequest> {
  const request = await store.findDeviceRequestByUserCode(db, hashUserCode(userCode));
  if (request?.state === 'pending' && request.expiresAt > now) return request;
  const message = 'No program waits for this code. Check the code, or start the sign-in of the program again.';
  throw new BursarError('sign_in_failed', message);
}

const failure = (error: OAuthErrorCode, description: string): PollResult => ({ kind: 'error', error, description });

function createUserCode(): string {
  const letters = Array.from({ length: userCodeLength }, () => userCodeLetters[randomInt(userCodeLetters.length)]);
  return `${letters.slice(0, 4).join('')}-${letters.slice(4).join('')}`;
}

/** Users may leave out the hyphen, and write in lower case. */
const hashUserCode = (text: string) => hashToken(`user code ${text.toUpperCase().replace(/[^A-Z]/g, '')}`);
