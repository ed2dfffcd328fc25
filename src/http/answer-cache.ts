export interface KeptAnswer {
  version: string;
  /** Its entity tag. */
  tag: string;
  /** Null for one that is too long to be kept: of that only the version is known. */
  body: Buffer | null;
  /** The `Link` to the next page, if there is one. */
  link: string | null;
}

/** The last answer to each request, as long as there is room for it. Whether it is still right, its version tells. */
export interface AnswerCache {
  get(request: string): KeptAnswer | undefined;
  put(request: string, answer: KeptAnswer): void;
}

/** About what an entry takes beside the body. */
const entryBytes = 500;

/** Keeps what was used last, within so many bytes; a body that would take more than an eighth of them is not kept. */
export function createAnswerCache(mostBytes: number): AnswerCache {
  // A Map lists its keys in the order in which they were put in: the first is the one that was not used for longest.
  const kept = new Map<string, KeptAnswer>();
  let bytes = 0;

  const sizeOf = (request: string, { body }: KeptAnswer) => entryBytes + request.length + (body?.length ?? 0);
  const remove = (request: string) => {
    const answer = kept.get(request);
    if (answer === undefined) return;
    bytes -= sizeOf(request, answer);
    kept.delete(request);
  };
  return {
    get(request) {
      const answer = kept.get(request);
      if (answer === undefined) return undefined;
      kept.delete(request);
      kept.set(request, answer);
      return answer;
    },
    put(request, answer) {
      remove(request);
      const isLong = answer.body !== null && answer.body.length > mostBytes / 8;
      const entry = isLong ? { ...answer, body: null } : answer;
      kept.set(request, entry);
      bytes += sizeOf(request, entry);
      for (const oldest of kept.keys()) {
        if (bytes <= mostBytes) break;
        remove(oldest);
      }
    },
  };
}
