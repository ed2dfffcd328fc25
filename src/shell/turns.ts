/** Lets so many work at a time; the others wait in the order they came. */
export function createTurns(limit: number): { take(): { turn: Promise<void>; leave(): void } } {
  const waiting: (() => void)[] = [];
  let working = 0;

  return {
    /** `leave` must be called exactly once, whether the turn came or was no longer wanted. */
    take() {
      if (working < limit) {
        working += 1;
        return { turn: Promise.resolve(), leave };
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      let isMine = false;
      const begin = () => {
        isMine = true;
        resolve();
      };
      waiting.push(begin);
      return {
        turn: promise,
        leave: () => {
          if (isMine) leave();
          else waiting.splice(waiting.indexOf(begin), 1);
        },
      };
    },
  };

  function leave() {
    const next = waiting.shift();
    if (next === undefined) working -= 1;
    else next();
  }
}
