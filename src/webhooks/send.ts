import { once } from 'node:events';
import type { IncomingMessage, RequestOptions } from 'node:http';
import type { LookupFunction } from 'node:net';
import { BursarError } from '../domain/errors.ts';
import { type DeliveryResult, deliveryResults, toDeliveryResult } from '../domain/webhook.ts';
import {
  type EndpointRules,
  isInAllowedNetwork,
  parseEndpointUrl,
  type ResolvedAddress,
  type ResolveEndpoint,
} from './endpoint.ts';

export interface SenderOptions {
  rules: EndpointRules;
  resolve: ResolveEndpoint;
  /** For the whole attempt: name resolution, connections, redirects and the response. */
  timeoutMs: number;
  userAgent: string;
}

export interface AttemptResult {
  ok: boolean;
  result: DeliveryResult;
  /** For the owner of the webhook, with no more details than the result. Null if the attempt succeeded. */
  error: string | null;
  /** The last HTTP status, for Bursar itself; null if there was no response. */
  status: number | null;
  /** The full error, for the log. */
  detail: string | null;
}

/** Never throws. If the signal is aborted, the attempt fails at once. */
export type SendRequest = (
  url: string,
  headers: Record<string, string>,
  body: string,
  signal: AbortSignal,
) => Promise<AttemptResult>;

const maxRedirects = 3;
/** Redirects that repeat the same request. 303 is missing because it asks for a GET. */
const redirectStatuses = new Set([301, 302, 307, 308]);
/** Response bodies are read up to this size, and discarded. */
const maxResponseBytes = 65_536;

/**
 * Posts JSON to a URL that a user chose. Every redirect is checked like the first URL: the URL itself and the IP addresses of
 * its host. The connection goes to one of the checked addresses, so that a second DNS query cannot lead elsewhere.
 *
 * If an address of `allowNetworks` cannot be reached, the attempt lasts until the timeout: otherwise its duration would show
 * whether a port of an internal host is closed or silent. Anybody can scan the ports of a public host without Bursar.
 */
export function createSender(options: SenderOptions): SendRequest {
  return async (url, headers, body, stopSignal) => {
    const signal = AbortSignal.any([stopSignal, AbortSignal.timeout(options.timeoutMs)]);
    const attempt = { isInternal: false };
    const result = await send(options, { url, headers, body, signal }, attempt);
    if (attempt.isInternal && result.result === 'unreachable' && !signal.aborted) await once(signal, 'abort');
    return result;
  };
}

interface OutgoingRequest {
  url: string;
  headers: Record<string, string>;
  body: string;
  signal: AbortSignal;
}

/** Sets `isInternal` if it tries an address of `allowNetworks`. */
async function send(
  { rules, resolve, timeoutMs, userAgent }: SenderOptions,
  { url: firstUrl, headers: extraHeaders, body, signal }: OutgoingRequest,
  attempt: { isInternal: boolean },
): Promise<AttemptResult> {
  const headers = {
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    'user-agent': userAgent,
    ...extraHeaders,
  };
  let target = firstUrl;
  let status: number | null = null;
  try {
    for (let redirects = 0; redirects <= maxRedirects; redirects++) {
      const url = parseEndpointUrl(target, rules);
      const addresses = await resolve(url, signal);
      attempt.isInternal ||= addresses.some(({ address }) => isInAllowedNetwork(address, rules));
      const response = await post(url, addresses, { headers, signal }, body);
      status = response.status;
      const result = toDeliveryResult(status);
      if (result === '2xx') return { ok: true, result, status, error: null, detail: null };
      const { location } = response;
      if (!redirectStatuses.has(status) || location === undefined) return failure(result, status, `status ${status}`);
      if (!URL.canParse(location, target)) return failure(result, status, 'redirect to an invalid URL');
      target = new URL(location, target).href;
    }
    return failure('3xx', status, `more than ${maxRedirects} redirects`);
  } catch (error) {
    if (error instanceof BursarError && error.code === 'webhook_refused')
      return { ...failure('denied', status, error.message), error: error.message };
    return failure('unreachable', status, signal.aborted ? `timeout after ${timeoutMs} ms` : toDetail(error));
  }
}

const failure = (result: DeliveryResult, status: number | null, detail: string): AttemptResult => ({
  ok: false,
  result,
  status,
  detail,
  error: `The event was not delivered (${result}): ${deliveryResults[result]}.`,
});

function toDetail(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message;
}

async function post(
  url: URL,
  addresses: ResolvedAddress[],
  options: RequestOptions,
  body: string,
): Promise<{ status: number; location: string | undefined }> {
  // Loaded only when a webhook is used: TLS alone takes 5 MB of memory.
  const { request } = process.getBuiltinModule(url.protocol === 'https:' ? 'node:https' : 'node:http');
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    // No agent: a keep-alive connection would go to the address of an earlier DNS query.
    request(url, { ...options, method: 'POST', agent: false, lookup: fixedLookup(addresses) })
      .once('response', resolve)
      .once('error', reject)
      .end(body);
  });
  discardBody(response);
  return { status: response.statusCode ?? 0, location: response.headers.location };
}

/** Returns the checked addresses instead of querying DNS again. */
function fixedLookup(addresses: readonly ResolvedAddress[]): LookupFunction {
  return (_hostname, { all }, done) => {
    const [first] = addresses;
    if (all) done(null, [...addresses]);
    else done(null, first?.address ?? '', first?.family);
  };
}

/** Reads a short response to its end, and closes the connection of a long one. */
function discardBody(response: IncomingMessage): void {
  let bytes = 0;
  response.on('error', () => undefined);
  response.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > maxResponseBytes) response.destroy();
  });
}
