import fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyServerOptions,
  LogController,
} from 'fastify';
import { maxJsonBytes } from '../request/request-errors.ts';
import type { Certificate } from './certificate.ts';
import { lazyValidators } from './lazy-validators.ts';
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
    // Unknown fields are errors, and many errors are reported at once: `maxJsonBytes` bounds the work. The schemas are our
    // own: tests check them.
    ajv: {
      // Without `strictNumbers`, `minimum` and `maximum` apply to Infinity too, which is what 1e309 is converted to.
      customOptions: {
        removeAdditional: false,
        allErrors: true,
        coerceTypes: true,
        strictNumbers: false,
        validateSchema: false,
      },
    },
    schemaController: { compilersFactory: { buildValidator: lazyValidators, buildSerializer } },
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

/** By default Fastify compiles a serializer for every schema, which slows down the start and takes memory. */
const buildSerializer = () => () => JSON.stringify;
