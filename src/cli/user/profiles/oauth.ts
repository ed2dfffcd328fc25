import { ConnectionError } from '#client';
import { CommandError } from '../errors.ts';

/** A request to an issuer that takes longer has failed. It ends before other commands take the lock of the profiles away. */
const timeoutMs = 10_000;

export interface TokenResult {
  accessToken: string;
  refreshToken: string | undefined;
  expiresInSeconds: number | undefined;
}

export interface OAuthFailure {
  error: string;
  description: string;
}

interface TokenResponse {
  access_token?: string;
  refresh_token?: string;
  expires_in?: number;
}

/** Sends a form to an OAuth endpoint. Throws if it does not answer with JSON. */
export async function postForm(
  url: string,
  form: Record<string, string>,
  signal?: AbortSignal,
): Promise<{ isOk: boolean; body: Record<string, unknown> }> {
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    const response = await fetch(url, {
      method: 'POST',
      body: new URLSearchParams(form),
      headers: { accept: 'application/json' },
      redirect: 'manual',
      signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
    });
    const text = await response.text();
    const body = text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
    return { isOk: response.ok, body };
  } catch (error) {
    if (signal?.aborted) throw error;
    if (error instanceof SyntaxError)
      throw new CommandError('failure', `${url} does not answer as an OAuth server does.`, 'Check the address.');
    throw new ConnectionError(new URL(url).origin, error);
  }
}

/** Asks a token endpoint for a token. A refusal is returned, because the device flow continues after some of them. */
export async function requestToken(
  endpoint: string,
  form: Record<string, string>,
  signal?: AbortSignal,
): Promise<TokenResult | OAuthFailure> {
  const { isOk, body } = await postForm(endpoint, form, signal);
  const { access_token: accessToken, refresh_token: refreshToken, expires_in: expiresIn } = body as TokenResponse;
  if (isOk && typeof accessToken === 'string') return { accessToken, refreshToken, expiresInSeconds: expiresIn };
  const error = typeof body.error === 'string' ? body.error : 'invalid_response';
  return { error, description: typeof body.error_description === 'string' ? body.error_description : error };
}
