import { setTimeout as sleep } from 'node:timers/promises';
import { ConnectionError } from '#client';
import { CommandError } from '../errors.ts';
import { postForm, requestToken, type TokenResult } from './oauth.ts';

/** The endpoints at which a program without a browser gets a token (RFC 8628). */
export interface DeviceEndpoints {
  deviceEndpoint: string;
  tokenEndpoint: string;
  clientId: string;
  scope: string | undefined;
}

/** The code that the user confirms, and the page for it. */
export interface DeviceCode {
  deviceCode: string;
  userCode: string;
  verificationUri: string;
  /** The same page with the code, if the server has one. */
  completeUri: string | undefined;
  expiresInSeconds: number;
  intervalSeconds: number;
}

const deviceGrant = 'urn:ietf:params:oauth:grant-type:device_code';
const defaultIntervalSeconds = 5;
const slowDownSeconds = 5;
const minIntervalSeconds = 1;
const maxIntervalSeconds = 60;

/** Asks for a code. Throws if the server refuses. */
export async function startDeviceFlow(
  { deviceEndpoint, clientId, scope }: DeviceEndpoints,
  signal: AbortSignal,
): Promise<DeviceCode> {
  const form = { client_id: clientId, ...(scope === undefined ? {} : { scope }) };
  const { isOk, body } = await postForm(deviceEndpoint, form, signal);
  const text = (name: string) => (typeof body[name] === 'string' ? body[name] : undefined);
  const number = (name: string, otherwise: number) => (typeof body[name] === 'number' ? body[name] : otherwise);
  const [deviceCode, userCode, verificationUri] = [text('device_code'), text('user_code'), text('verification_uri')];
  if (!isOk || deviceCode === undefined || userCode === undefined || verificationUri === undefined) {
    const reason = text('error_description') ?? text('detail') ?? text('error') ?? 'no code';
    throw new CommandError('notSignedIn', `${new URL(deviceEndpoint).origin} refuses the sign-in: ${reason}`);
  }
  const completeUri = text('verification_uri_complete');
  for (const address of [verificationUri, completeUri ?? verificationUri]) requireWebPage(address, deviceEndpoint);
  return {
    deviceCode,
    userCode,
    verificationUri,
    completeUri,
    expiresInSeconds: number('expires_in', 600),
    intervalSeconds: Math.max(minIntervalSeconds, number('interval', defaultIntervalSeconds)),
  };
}

/** The user is asked to open the address. Others, such as javascript: or file:, are an attack. */
function requireWebPage(address: string, deviceEndpoint: string): void {
  if (/^https?:\/\//.test(address) && URL.canParse(address)) return;
  throw new CommandError('failure', `${new URL(deviceEndpoint).origin} names a page that is none: ${address}`);
}

/** Polls until the user has confirmed the code. Throws if the user refuses, or the code expires before. */
export async function waitForToken(
  { tokenEndpoint, clientId }: DeviceEndpoints,
  { deviceCode, expiresInSeconds, intervalSeconds }: DeviceCode,
  signal: AbortSignal,
): Promise<TokenResult> {
  const form = { grant_type: deviceGrant, device_code: deviceCode, client_id: clientId };
  const endsAt = Date.now() + expiresInSeconds * 1000;
  let interval = intervalSeconds;
  while (Date.now() < endsAt) {
    await sleep(Math.min(interval, maxIntervalSeconds) * 1000, undefined, { signal });
    const result = await requestToken(tokenEndpoint, form, signal).catch((error: unknown) => {
      // The user may be confirming the code while the network is away.
      if (!(error instanceof ConnectionError)) throw error;
      return { error: 'unreachable', description: error.message };
    });
    if (!('error' in result)) return result;
    if (result.error === 'slow_down') interval += slowDownSeconds;
    else if (result.error === 'unreachable') interval = Math.min(interval * 2, maxIntervalSeconds);
    else if (result.error !== 'authorization_pending')
      throw new CommandError('notSignedIn', `The sign-in has failed: ${result.description}`, 'Run: bursar login');
  }
  throw new CommandError('notSignedIn', 'The code has expired before it was confirmed.', 'Run: bursar login');
}
