import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { BursarError } from '../domain/errors.ts';

/** A key of AES-256-GCM. Its id is stored with everything that it encrypts. */
export interface SecretKey {
  id: string;
  bytes: Buffer;
}

/** The keys of this installation. */
export interface Keyring {
  /** The key that encrypts. */
  current(): SecretKey;
  find(id: string): SecretKey | undefined;
}

const prefix = 'enc:1:';
const nonceBytes = 12;
const tagBytes = 16;
const algorithm = 'aes-256-gcm';

/** The id of the key of an encrypted text; null for a text that is not encrypted, as versions before 0.2 stored it. */
export function keyIdOf(stored: string): string | null {
  return stored.startsWith(prefix) ? (stored.slice(prefix.length).split(':')[0] ?? '') : null;
}

/**
 * Encrypts a text for one place in the database, such as `webhooks/17`. The result can be decrypted for the same place only, so
 * that rows cannot be swapped.
 */
export function encryptSecret(key: SecretKey, text: string, place: string): string {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv(algorithm, key.bytes, nonce, { authTagLength: tagBytes });
  cipher.setAAD(Buffer.from(place));
  const bytes = Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
  return `${prefix}${key.id}:${bytes.toString('base64')}`;
}

/** Decrypts a stored text, and returns one that is not encrypted as it is. Throws `secret_unreadable`. */
export function decryptSecret(keyring: Keyring, stored: string, place: string): string {
  const id = keyIdOf(stored);
  if (id === null) return stored;
  const key = keyring.find(id);
  if (key === undefined) {
    throw new BursarError(
      'secret_unreadable',
      `The key ${id}, which encrypts the secret of ${place}, is missing. Put it back into the folder secret-keys of the data ` +
        'folder, or into secrets.keys of the configuration. If it is lost, the owner must replace the secret.',
    );
  }
  const bytes = Buffer.from(stored.slice(prefix.length + id.length + 1), 'base64');
  try {
    const decipher = createDecipheriv(algorithm, key.bytes, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes });
    decipher.setAAD(Buffer.from(place));
    decipher.setAuthTag(bytes.subarray(-tagBytes));
    return decipher.update(bytes.subarray(nonceBytes, -tagBytes), undefined, 'utf8') + decipher.final('utf8');
  } catch (cause) {
    throw new BursarError(
      'secret_unreadable',
      `The key ${id} does not decrypt the secret of ${place}: it is another key of the same name, or the database was changed ` +
        'by hand. Put the right key back. If it is lost, the owner must replace the secret.',
      { cause },
    );
  }
}
