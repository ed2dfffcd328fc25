import { createIdempotencyKey } from '../../client/idempotency-key.ts';
import { crc32 } from './files/crc32.ts';

const storageKey = 'submit-attempt';

/**
 * Returns the Idempotency-Key of a submission. The same form with the same files gets the same key until the server has
 * answered, also after a reload of the page: however often it is submitted, there is one job.
 */
export function attemptKey(content: unknown): string {
  const bytes = new TextEncoder().encode(JSON.stringify(content));
  const fingerprint = `${bytes.length}-${crc32(bytes, 0)}`;
  const [knownFingerprint, knownKey] = sessionStorage.getItem(storageKey)?.split(' ') ?? [];
  if (knownFingerprint === fingerprint && knownKey !== undefined) return knownKey;
  const key = createIdempotencyKey();
  sessionStorage.setItem(storageKey, `${fingerprint} ${key}`);
  return key;
}

/** The server has answered: the next submission is another one. */
export function forgetAttempt(): void {
  sessionStorage.removeItem(storageKey);
}
