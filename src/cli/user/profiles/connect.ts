import { Bursar, type ClientOptions } from '#client';
import type { Environment } from '../../host.ts';
import type { CommonOptions } from '../command-environment.ts';
import { CommandError, usageError } from '../errors.ts';
import { needsRefresh, refreshProfile } from './refresh.ts';
import { type Profile, readProfiles } from './store.ts';

export interface Account {
  url: string;
  token: string | undefined;
  /** The name of the profile that the token comes from; undefined if it comes from BURSAR_TOKEN. */
  profileName: string | undefined;
  profile: Profile | undefined;
}

type AccountOptions = Pick<CommonOptions, 'profile' | 'insecure' | 'verbose'>;

export interface Connection {
  env: Environment;
  options: AccountOptions;
  now: () => number;
  /** Gets a line for each request, with --verbose. */
  log: (line: string) => void;
}

/** Creates the client of the server and the token that apply to a command. Throws if there is no token. */
export async function connect(connection: Connection): Promise<Bursar> {
  const { env, options, now } = connection;
  const account = await resolveAccount(env, options);
  if (account.token === undefined)
    throw new CommandError(
      'notSignedIn',
      `You are not signed in at ${account.url}.`,
      `Run: bursar login ${account.url}`,
    );
  checkTransport(account.url, options.insecure || account.profile?.insecure);
  return createClient(connection, account.url, currentToken(account, env, now));
}

/** The token of an OpenID provider ends within minutes. It is renewed before, also while a command watches a job. */
function currentToken(account: Account, env: Environment, now: () => number): string | (() => Promise<string>) {
  const { profileName, token = '' } = account;
  let { profile } = account;
  if (profileName === undefined || profile?.issuer?.refresh_token === undefined) return token;
  return async () => {
    if (profile !== undefined && needsRefresh(profile, now())) profile = await refreshProfile(env, profileName, now);
    return profile?.token ?? token;
  };
}

/** A client without the check for a token, for the sign-in. */
export function createClient(
  { options, log }: Pick<Connection, 'options' | 'log'>,
  url: string,
  token: ClientOptions['token'],
): Bursar {
  return new Bursar({ url, token, retries: 3, ...(options.verbose ? { onRequest: (line) => log(`> ${line}`) } : {}) });
}

/** Finds the server and the token: BURSAR_URL and BURSAR_TOKEN, then the profile. */
export async function resolveAccount(env: Environment, options: AccountOptions): Promise<Account> {
  const { current, profiles } = await readProfiles(env);
  const wanted = options.profile ?? (env.BURSAR_PROFILE || undefined);
  const profileName = wanted ?? current;
  const profile = profiles[profileName];
  if (wanted !== undefined && profile === undefined) throw unknownProfile(wanted, Object.keys(profiles));
  const url = env.BURSAR_URL ? normaliseUrl(env.BURSAR_URL) : profile?.url;
  if (url === undefined)
    throw new CommandError('notSignedIn', 'You are not signed in.', 'Run: bursar login https://address.of.the.server');
  if (env.BURSAR_TOKEN) return { url, token: env.BURSAR_TOKEN.trim(), profileName: undefined, profile: undefined };
  // The token of one server must never reach another one.
  if (profile === undefined || profile.url !== url) {
    const other =
      wanted === undefined ? Object.entries(profiles).find(([, { url: known }]) => known === url) : undefined;
    return { url, token: other?.[1].token, profileName: other?.[0], profile: other?.[1] };
  }
  return { url, token: profile.token, profileName, profile };
}

export function unknownProfile(name: string, known: string[]): CommandError {
  const next = known.length > 0 ? `Use one of: ${known.join(', ')}` : `Run: bursar login --profile ${name}`;
  return usageError(`There is no profile "${name}".`, next);
}

/** Adds the scheme that was left out, and removes the slash at the end, so that equal addresses are equal. */
export function normaliseUrl(text: string): string {
  const hasScheme = /^[a-z][a-z\d+.-]*:\/\//i.test(text);
  const candidate = hasScheme ? text : `${isLoopback(text.split(/[:/]/)[0] ?? '') ? 'http' : 'https'}://${text}`;
  const url = URL.canParse(candidate) ? new URL(candidate) : undefined;
  if (
    url === undefined ||
    !['http:', 'https:'].includes(url.protocol) ||
    url.username !== '' ||
    url.search + url.hash !== ''
  )
    throw usageError(`"${text}" is not the address of a server.`, 'Write it as https://bursar.example.org');
  return url.href.replace(/\/+$/, '');
}

/** A token over plain HTTP can be read on the way, unless it stays on this host. */
export function checkTransport(url: string, isAccepted: boolean | undefined): void {
  const { protocol, hostname } = new URL(url);
  if (protocol === 'https:' || isLoopback(hostname) || isAccepted) return;
  throw usageError(
    `${url} does not encrypt: others on the network could read your token.`,
    'Use https://, or accept the risk with --insecure',
  );
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost') || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host);
}
