/** JSON to be sent: as one text, with the record number that the next page comes after; or, when it is long, in pieces. */
export type JsonAnswer = { json: string; next?: number } | { pieces: AsyncIterable<string> };

/** An answer whose version is known before it is read: for who has that version already it need not be read. */
export interface Versioned {
  version: string;
  read(): Promise<JsonAnswer>;
}
