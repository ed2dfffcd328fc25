import type { Engine } from '../engines/engine.ts';
import type { HeldLease } from './hold-lease.ts';

/** An engine for as long as its system is ours: afterwards it can be looked at, but nothing in it can be changed. */
export function fencedEngine(engine: Engine, tenure: HeldLease): Engine {
  const whileOurs =
    <Args extends unknown[], Result>(act: (...args: Args) => Promise<Result>) =>
    async (...args: Args): Promise<Result> => {
      tenure.assertValid();
      return await act(...args);
    };
  return {
    ...engine,
    submit: whileOurs(engine.submit),
    release: whileOurs(engine.release),
    discard: whileOurs(engine.discard),
    cancel: whileOurs(engine.cancel),
    forget: whileOurs(engine.forget),
  };
}
