import type { IncomingMessage, RequestOptions } from 'node:http';
import type { LookupFunction } from 'node:net';
import { BursarError } from '../domain/errors.ts';
import { type EndpointRules, parseEndpointUrl } from './endpoint-url.ts';
import type { ResolvedAddress, ResolveEndpoint } from './resolve-endpoint.ts';

export interface SenderOptions {
  rules: EndpointRules;
  resolve: ResolveEndpoint;
  /** For everything together: names, connections, redirects, the answer. */
  timeoutMs: number;
  userAgent: string;
}

/** What became of an attempt. `status` is null when no answer came, or none was asked for. */
export interface AttemptResult {
  ok: boolean;
  status: number | null;
  /** Null when it went well. */
  error: string | null;
}

export type SendRequest = (url: string, headers: Record<string, string>, body: string) => Promise<AttemptResult>;

const mostRedirects = 3;
/** Those after which the same request goes to another address. 303 asks for something else. */
const redirects = new Set([301, 302, 307, 308]);
/** What is read of an answer, and thrown away. */
const mostAnswerBytes = 65_536;

/**
 * Posts JSON to an address of a user's choice. Every hop is checked like the first: its URL, and the IP addresses behind
 * its name, to which the connection then goes, so that no second look-up can lead elsewhere. Never throws.
 */
export function createSender({ rules, resolve, timeoutMs, userAgent }: SenderOptions): SendRequest {
  return async (address, headers, body) => {
    const signal = AbortSignal.timeout(timeoutMs);
    const all = {
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(body)),
      'user-agent': userAgent,
      ...headers,
    };
    let target = address;
    let status: number | null = null;
    try {
      for (let hop = 0; hop <= mostRedirects; hop++) {
        const url = parseEndpointUrl(target, rules);
        const answer = await post(url, await resolve(url, signal), { headers: all, signal }, body);
        status = answer.status;
        if (status >= 200 && status < 300) return { ok: true, status, error: null };
        if (!redirects.has(status) || answer.location === undefined) return failure(status, `It answered ${status}.`);
        if (!URL.canParse(answer.location, target)) return failure(status, 'It redirects to what is no address.');
        target = new URL(answer.location, target).href;
      }
      return failure(status, `It redirects more than ${mostRedirects} times.`);
    } catch (error) {
      return failure(status, signal.aborted ? `It did not answer within ${timeoutMs / 1000} s.` : wordsOf(error));
    }
  };
}

const failure = (status: number | null, error: string): AttemptResult => ({ ok: false, status, error });

function wordsOf(error: unknown): string {
  if (error instanceof BursarError) return error.message;
  const { code, message } = error as NodeJS.ErrnoException;
  return `It cannot be reached: ${code ?? message}.`;
}

interface Answer {
  status: number;
  location: string | undefined;
}

async function post(url: URL, addresses: ResolvedAddress[], options: RequestOptions, body: string): Promise<Answer> {
  // Not before there is a webhook: TLS alone takes 5 MB.
  const { request } = process.getBuiltinModule(url.protocol === 'https:' ? 'node:https' : 'node:http');
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    // A connection of its own: one that is kept open would go where an earlier look-up led.
    request(url, { ...options, method: 'POST', agent: false, lookup: leadingTo(addresses) })
      .once('response', resolve)
      .once('error', reject)
      .end(body);
  });
  discard(response);
  return { status: response.statusCode ?? 0, location: response.headers.location };
}

/** In place of another look-up: the addresses that have been checked. */
function leadingTo(addresses: readonly ResolvedAddress[]): LookupFunction {
  return (_hostname, { all }, done) => {
    const [first] = addresses;
    if (all) done(null, [...addresses]);
    else done(null, first?.address ?? '', first?.family);
  };
}

/** Lets a polite receiver finish its answer, and cuts off one that does not. */
function discard(response: IncomingMessage): void {
  let bytes = 0;
  response.on('error', () => undefined);
  response.on('data', (part: Buffer) => {
    bytes += part.length;
    if (bytes > mostAnswerBytes) response.destroy();
  });
}
