/** JSON to be sent: as one text, with the record number that the next page comes after; or, when it is long, in pieces. */
export type JsonBody = { json: string; next?: number } | { pieces: AsyncIterable<string> };

/** What has a version, as one look found it; null in place of the answer when the version is the one that was known. */
export interface VersionedJson {
  version: string;
  answer: JsonBody | null;
  /** Until when it is so unless somebody writes to the books, in epoch milliseconds; for ever if left out. */
  goodUntil?: number;
}
