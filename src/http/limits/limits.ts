import type { Socket } from 'node:net';
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import type { BursarError } from '../../domain/errors.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import { type ConnectionLimits, type Connections, limitConnections } from './connections.ts';
import { createOpenRequests, type OpenRequestLimits, type OpenRequests } from './open-requests.ts';
import { createRateLimits, type RateLimitSettings, type RateLimits } from './rate-limits.ts';
import { disconnectSlowReaders, type SlowReaderLimits } from './slow-readers.ts';

export interface LimitSettings {
  rates: RateLimitSettings;
  openRequests: OpenRequestLimits;
  connections: ConnectionLimits;
  slowReaders: SlowReaderLimits;
}

export interface LimitDeps {
  settings: LimitSettings;
  registry: Pick<Metrics, 'gauge' | 'counter' | 'setGauge' | 'increment'>;
  log: Pick<FastifyBaseLogger, 'info'>;
  /** Sends an error on a connection without a request, and closes it. */
  endWithError(connection: Socket, error: BursarError): void;
}

/** The limits of a server. Routes and hooks call those of requests. */
export interface Limits {
  rates: RateLimits;
  openRequests: OpenRequests;
  /** Limits the connections of a server, and disconnects clients that do not read their responses. */
  install(app: FastifyInstance): Connections;
}

/** Creates all limits. What they refuse is counted. */
export function createLimits({ settings, registry, log, endWithError }: LimitDeps): Limits {
  return {
    rates: createRateLimits(settings.rates, () => performance.now()),
    openRequests: createOpenRequests({
      limits: settings.openRequests,
      gauge: (kind) => registry.gauge('bursar_open_requests', { kind }),
      onDownload: registry.counter('bursar_download_bytes_total', {}).increment,
      onRefusal: (kind) => registry.increment('bursar_refused_requests_total', { kind }),
    }),
    install(app) {
      const connections = limitConnections(app.server, {
        limits: settings.connections,
        onCount: (count) => registry.setGauge('bursar_connections', {}, count),
        onRefusal: () => registry.increment('bursar_connections_cut_total', { reason: 'too_many_connections' }),
        endWithError,
      });
      const stopChecks = disconnectSlowReaders(connections.open, settings.slowReaders, ({ remoteAddress: address }) => {
        registry.increment('bursar_connections_cut_total', { reason: 'slow_reader' });
        log.info({ address }, 'client disconnected: it reads its response too slowly');
      });
      app.addHook('preClose', async () => connections.closeUnused());
      app.addHook('onClose', async () => stopChecks());
      return connections;
    },
  };
}
