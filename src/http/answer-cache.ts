export interface KeptAnswer {
  body: Buffer;
  /** The `Link` to the next page, if there is one. */
  link: string | null;
}

/** Answers that were built before, by their entity tags: an answer that has changed has another tag. */
export interface AnswerCache {
  get(tag: string): KeptAnswer | undefined;
  put(tag: string, answer: KeptAnswer): void;
}

/** Keeps what was used last, within so many bytes; an answer that would take more than an eighth of them is not kept. */
export function createAnswerCache(mostBytes: number): AnswerCache {
  // A Map lists its keys in the order in which they were put in: the first is the one that was not used for longest.
  const kept = new Map<string, KeptAnswer>();
  let bytes = 0;

  const remove = (tag: string) => {
    bytes -= kept.get(tag)?.body.length ?? 0;
    kept.delete(tag);
  };
  return {
    get(tag) {
      const answer = kept.get(tag);
      if (answer === undefined) return undefined;
      kept.delete(tag);
      kept.set(tag, answer);
      return answer;
    },
    put(tag, answer) {
      if (answer.body.length > mostBytes / 8) return;
      remove(tag);
      kept.set(tag, answer);
      bytes += answer.body.length;
      for (const oldest of kept.keys()) {
        if (bytes <= mostBytes) break;
        remove(oldest);
      }
    },
  };
}
