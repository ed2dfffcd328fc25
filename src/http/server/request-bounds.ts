const headEnd = Buffer.from('\r\n\r\n');

/** Where the requests of one connection begin, as far as that can be told without understanding them. */
export interface RequestBounds {
  /** Whether a request begins with the next byte. False also where nobody can tell any more. */
  atStart(): boolean;
  /** Takes note of the next piece of what is sent. */
  pass(piece: Buffer): void;
}

export function createRequestBounds(): RequestBounds {
  /** So many bytes of a body are still to come; not a number once that cannot be told. */
  let left = 0;
  return {
    atStart: () => left === 0,
    pass(piece) {
      // Nobody who waits for an answer sends one request in two pieces, or two in one, unless it has a body.
      left = left === 0 ? bodyLeftAfter(piece) : left - piece.length;
      if (left < 0) left = Number.NaN;
    },
  };
}

/** How much of the body follows a piece that begins with the head of a request. */
function bodyLeftAfter(piece: Buffer): number {
  const end = piece.indexOf(headEnd);
  if (end < 0) return Number.NaN;
  const bodyBegins = end + headEnd.length;
  return bodyLengthOf(piece.toString('latin1', 0, bodyBegins)) - (piece.length - bodyBegins);
}

/** Not a number where the head says it in any but the plainest way. */
function bodyLengthOf(head: string): number {
  const mentions = head.match(/content-length|transfer-encoding/gi)?.length ?? 0;
  if (mentions === 0) return 0;
  const digits = /\r\ncontent-length:[ \t]*(\d{1,15})[ \t]*\r\n/i.exec(head)?.[1];
  return mentions === 1 && digits !== undefined ? Number(digits) : Number.NaN;
}
