/** JSON to send: one text, with the id after which the next page starts; or, for a long list, chunks. */
export type JsonBody = { json: string; nextAfterId?: number } | { chunks: AsyncIterable<string> };

/** A response whose version is known before its body is built. A client that has this version needs no body. */
export interface VersionedJson {
  version: string;
  body(): Promise<JsonBody>;
}
