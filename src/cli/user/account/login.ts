import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Bursar } from '#client';
import type { Context } from '../context.ts';
import { CommandError, usageError } from '../errors.ts';
import { checkTransport, createClient, normaliseUrl } from '../profiles/connect.ts';
import { type DeviceCode, type DeviceEndpoints, startDeviceFlow, waitForToken } from '../profiles/device-flow.ts';
import { chooseIssuer, discoverIssuer, issuerEndpoints } from '../profiles/issuer.ts';
import { type Profile, type ProfileFile, readProfiles, updateProfiles } from '../profiles/store.ts';
import { openBrowser } from '../terminal/open-browser.ts';
import { readSecret } from '../terminal/read-secret.ts';
import { escapeText } from '../terminal/text.ts';

export interface LoginOptions {
  url?: string | undefined;
  /** The token itself; true or "-" reads it from standard input. */
  token?: string | true | undefined;
  web?: boolean | undefined;
  issuer?: string | undefined;
  scopes?: string | undefined;
}

type Credentials = Pick<Profile, 'token' | 'expires_at' | 'issuer'> & {
  /** The name that the new token has at the server, if it is one of Bursar. */
  tokenName?: string;
};

/** Signs in and stores the token in a profile. The first one becomes the default, others only by `bursar profiles use`. */
export async function run(context: Context, options: LoginOptions): Promise<void> {
  const { env } = context;
  const url = findUrl(options, await readProfiles(env), context);
  const isInsecure = context.options.insecure === true;
  checkTransport(url, isInsecure);
  const credentials =
    options.token === undefined
      ? await signInByDevice(context, url, options)
      : { token: await readToken(context, options.token) };
  const { token, tokenName, ...rest } = credentials as Credentials;
  const client = createClient(context.connection, url, token);
  const me = await client.api.getMe({ signal: context.signal });
  const tokenId = tokenName === undefined ? undefined : await findTokenId(client, tokenName);
  const profile: Profile = {
    url,
    user: me.user,
    token,
    ...rest,
    expires_at: rest.expires_at ?? me.expires_at ?? undefined,
    ...(tokenId === undefined ? {} : { token_id: tokenId }),
    ...(isInsecure ? { insecure: true } : {}),
  };
  const { name, current } = await updateProfiles(env, (file) => {
    const chosen = context.options.profile ?? (env.BURSAR_PROFILE || undefined) ?? chooseName(file, url);
    if (file.profiles[file.current] === undefined) file.current = chosen;
    file.profiles[chosen] = profile;
    return { name: chosen, current: file.current };
  });
  if (context.options.json) await context.printJsonLine(me);
  else context.note(`Signed in at ${url} as ${me.user}, profile "${name}".`);
  context.note(
    name === current
      ? 'Commands use this profile by default.'
      : `By default commands use the profile "${current}". Use the new one with --profile ${name}, or always: bursar profiles use ${name}`,
  );
  if (env.BURSAR_TOKEN) context.note('BURSAR_TOKEN is set: other commands use that token, not this profile.');
}

function findUrl({ url }: LoginOptions, { current, profiles }: ProfileFile, { env, options }: Context): string {
  if (url !== undefined) return normaliseUrl(url);
  if (env.BURSAR_URL) return normaliseUrl(env.BURSAR_URL);
  const known = profiles[options.profile ?? (env.BURSAR_PROFILE || current)]?.url;
  if (known !== undefined) return known;
  throw usageError('At which server?', 'Run: bursar login https://address.of.the.server');
}

/** The first profile is "default". Another server gets the name of its host; the same server keeps its profile. */
function chooseName({ profiles }: ProfileFile, url: string): string {
  const same = Object.entries(profiles).find(([, profile]) => profile.url === url);
  if (same !== undefined) return same[0];
  return Object.keys(profiles).length === 0 ? 'default' : new URL(url).host;
}

async function readToken(context: Context, token: string | true): Promise<string> {
  const text = token === true || token === '-' ? await readSecret(context, 'Token: ') : token;
  if (text.trim() === '') throw usageError('The token is empty.', 'Give it after --token, or on standard input.');
  return text.trim();
}

async function signInByDevice(context: Context, url: string, options: LoginOptions): Promise<Credentials> {
  const { api } = createClient(context.connection, url, undefined);
  const signInOptions = await api.getSignInOptions({ signal: context.signal });
  const issuer = chooseIssuer(signInOptions, options.issuer);
  if (issuer === undefined) {
    // The name is unique, so that the token can be found among the tokens of the user.
    const tokenName = `bursar on ${hostname()} (${randomBytes(3).toString('hex')})`.slice(-100);
    const endpoints: DeviceEndpoints = {
      deviceEndpoint: `${url}/oauth/device/`,
      tokenEndpoint: `${url}/oauth/token/`,
      clientId: tokenName,
      scope: options.scopes,
    };
    const { accessToken } = await confirmAndWait(context, endpoints, await start(context, endpoints), options);
    return { token: accessToken, tokenName };
  }
  if (options.scopes !== undefined)
    throw usageError(`--scopes has no effect at ${issuer.name}.`, 'Use it with: bursar login --issuer bursar');
  const metadata = await discoverIssuer(issuer.issuer, context.options.insecure === true);
  let endpoints = issuerEndpoints(issuer, metadata, true);
  checkTransport(endpoints.deviceEndpoint, context.options.insecure);
  const code = await start(context, endpoints).catch((error: unknown) => {
    if (!(error instanceof CommandError)) throw error;
    // Not every client may ask for a refresh token by that scope.
    endpoints = issuerEndpoints(issuer, metadata, false);
    return start(context, endpoints);
  });
  const { accessToken, refreshToken, expiresInSeconds } = await confirmAndWait(context, endpoints, code, options);
  return {
    token: accessToken,
    ...(expiresInSeconds === undefined
      ? {}
      : { expires_at: new Date(context.now() + expiresInSeconds * 1000).toISOString() }),
    issuer: {
      issuer: issuer.issuer,
      client_id: endpoints.clientId,
      token_endpoint: endpoints.tokenEndpoint,
      ...(metadata.revocation_endpoint === undefined ? {} : { revocation_endpoint: metadata.revocation_endpoint }),
      ...(refreshToken === undefined ? {} : { refresh_token: refreshToken }),
    },
  };
}

const start = (context: Context, endpoints: DeviceEndpoints) => startDeviceFlow(endpoints, context.signal);

async function confirmAndWait(context: Context, endpoints: DeviceEndpoints, code: DeviceCode, options: LoginOptions) {
  const { userCode, verificationUri, completeUri = verificationUri } = code;
  if (context.options.json)
    await context.printJsonLine({
      user_code: userCode,
      verification_uri: verificationUri,
      verification_uri_complete: completeUri,
      expires_in: code.expiresInSeconds,
    });
  else {
    const bold = (text: string) => context.errorStyle('bold', escapeText(text));
    context.note(`Open ${bold(completeUri)} in a browser, and confirm the code ${bold(userCode)}.`);
  }
  if (options.web) openBrowser(context, completeUri);
  return await waitForToken(endpoints, code, context.signal);
}

async function findTokenId({ api }: Bursar, name: string): Promise<number | undefined> {
  return (await api.listTokens()).find((token) => token.name === name)?.id;
}
