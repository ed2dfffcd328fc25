/**
 * Does a piece of work for everybody at once who asks for it: never two at a time, and who asks while one is under way
 * is served by the next. So however many ask, a command is run as often as it can answer, and each answer is of after
 * it was asked for.
 */
export function coalesce<Asked, Answer>(
  work: (asked: Asked[], signal: AbortSignal) => Promise<Answer>,
): (asked: Asked, signal: AbortSignal) => Promise<Answer> {
  let running: Promise<unknown> = Promise.resolve();
  let next: { asked: Asked[]; answer: Promise<Answer> } | undefined;

  return (asked, signal) => {
    if (next !== undefined) {
      next.asked.push(asked);
      return next.answer;
    }
    const everybody = [asked];
    const answer = running.then(() => {
      next = undefined;
      return work(everybody, signal);
    });
    next = { asked: everybody, answer };
    running = answer.catch(() => undefined);
    return answer;
  };
}
