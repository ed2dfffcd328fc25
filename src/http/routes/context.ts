import type { ServiceDeps } from '../../services/service-deps.ts';
import type { CountOpenRequest } from '../limits/concurrency.ts';
import type { AuthenticationDeps } from '../request/access.ts';
import type { WatchAccess } from '../request/open-response.ts';

/** Everything that handlers of routes use, or pass on to the use cases. Each takes its part. */
export interface RouteContext extends ServiceDeps, AuthenticationDeps {
  countOpenRequest: CountOpenRequest;
  watchAccess: WatchAccess;
  /** Between two heartbeats of an event stream. */
  heartbeatMs: number;
  /** Aborted when the server starts to close. */
  closing: AbortSignal;
}
