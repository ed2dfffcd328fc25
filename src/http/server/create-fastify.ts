import fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyServerOptions,
  LogController,
} from 'fastify';
import { maxJsonBytes } from '../response/send-error.ts';
import type { Certificate } from './certificate.ts';
import { toRequestId } from './request-id.ts';

export interface FastifySettings {
  log: FastifyBaseLogger;
  /** Addresses and networks of the proxies whose X-Forwarded-For counts. */
  trustProxy: readonly string[];
  requestTimeoutMs: number;
  /** Undefined for a server without TLS. */
  certificate: Certificate | undefined;
}

const handshakeTimeoutMs = 10_000;

/** Creates Fastify on a server with or without TLS: only the type of `app.server` differs, which also speaks HTTP/1.1. */
export function createFastify(
  settings: FastifySettings,
  handlers: Pick<FastifyServerOptions, 'clientErrorHandler' | 'frameworkErrors'>,
): FastifyInstance {
  const options: FastifyServerOptions = {
    ...handlers,
    loggerInstance: settings.log,
    // The address of a request is that of its client if these proxies report it.
    trustProxy: settings.trustProxy.length > 0 && [...settings.trustProxy],
    logController: new LogController({ disableRequestLogging: true }),
    // Creating a child logger for each request costs time, and nothing uses it.
    childLoggerFactory: (logger) => logger,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 16_384 },
    // Bodies of submissions are streams, to which it does not apply.
    bodyLimit: maxJsonBytes,
    // Routes have no schemas of Fastify: `request/validation.ts` checks requests.
    schemaController: { compilersFactory: { buildValidator: unused, buildSerializer: unused } },
    requestTimeout: settings.requestTimeoutMs,
    return503OnClosing: false,
    genReqId: ({ headers }) => toRequestId(headers['x-request-id']),
  };
  // The hook `onRequest` rejects a request without Host, with a problem document. A request without a body needs no stream.
  const http = { requireHostHeader: false, optimizeEmptyRequests: true };
  if (settings.certificate === undefined) return fastify({ ...options, http });
  const https = { ...http, ...settings.certificate.options, handshakeTimeout: handshakeTimeoutMs };
  return fastify({ ...(options as object), https }) as unknown as FastifyInstance;
}

/** Keeps Fastify from loading its compilers. */
const unused = () => () => {
  throw new Error('routes have no schemas of Fastify');
};
