/** Creates an Idempotency-Key. `crypto.randomUUID` is missing on pages that were loaded without TLS. */
export function createIdempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
