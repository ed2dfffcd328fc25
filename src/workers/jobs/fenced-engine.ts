import type { Engine } from '../../engines/engine.ts';
import type { HeldLease } from '../hold-lease.ts';

/** Wraps an engine so that every method that changes jobs throws once the lease may have expired. Reading still works. */
export function fencedEngine(engine: Engine, lease: HeldLease): Engine {
  const fenced =
    <Args extends unknown[], Result>(method: (...args: Args) => Promise<Result>) =>
    async (...args: Args): Promise<Result> => {
      lease.assertValid();
      return await method(...args);
    };
  return {
    ...engine,
    submit: fenced(engine.submit),
    release: fenced(engine.release),
    preventStart: fenced(engine.preventStart),
    discard: fenced(engine.discard),
    cancel: fenced(engine.cancel),
    forget: fenced(engine.forget),
  };
}
