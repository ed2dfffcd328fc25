import {
  type AccessCheck,
  type EventDeps,
  type EventPosition,
  followEvents,
  pollEvents,
  resolvePosition,
} from './read-events.ts';

export type EventService = ReturnType<typeof createEventService>;

export function createEventService(deps: EventDeps) {
  return {
    /** Opens the events of a user at a position, for a stream or for one page. */
    async open(userId: string, position: EventPosition, checkAccess: AccessCheck) {
      const after = await resolvePosition(deps, userId, position);
      return {
        follow: (signal: AbortSignal) => followEvents(deps, userId, after, signal, checkAccess),
        poll: (page: { limit: number; waitMs: number }, signal: AbortSignal) =>
          pollEvents(deps, userId, { after, ...page }, signal, checkAccess),
      };
    },
  };
}
