import type { AccessCheck, EventPosition, EventReading, PollRequest } from './read-events.ts';
import { followEvents, pollEvents, startingPoint } from './read-events.ts';

export type EventService = ReturnType<typeof createEventService>;

export function createEventService(deps: EventReading) {
  return {
    startingPoint: (userId: string, position: EventPosition) => startingPoint(deps, userId, position),
    follow: (userId: string, after: number, signal: AbortSignal, checkAccess: AccessCheck) =>
      followEvents(deps, userId, after, signal, checkAccess),
    poll: (userId: string, request: PollRequest, signal: AbortSignal, checkAccess: AccessCheck) =>
      pollEvents(deps, userId, request, signal, checkAccess),
  };
}
