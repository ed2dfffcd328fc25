import { createHash } from 'node:crypto';
import { decryptSecret, encryptSecret, type Keyring } from '../../secrets/cipher.ts';
import type { Db, Tx } from '../../store/database/handle.ts';
import { findStoredSecrets, secretPlace } from '../../store/events/webhook-secrets.ts';

/** How the secrets of webhooks are stored. */
export interface SecretStore {
  /** The text to store. It is encrypted, unless an instance of an older version has to read it. */
  toStored(tx: Tx, webhookId: number, secret: string): Promise<string>;
  /** The current or the former secret of a webhook, if it has this hash. */
  findByHash(db: Db, webhookId: number, hash: string): Promise<string | undefined>;
}

/** A plain hash is enough: a secret has 256 random bits. */
export const hashSecret = (secret: string): string => createHash('sha256').update(secret).digest('hex');

export function createSecretStore(keyring: Keyring): SecretStore {
  return {
    async toStored(tx, webhookId, secret) {
      if (await tx.backend.dialect.hasOlderInstance(tx)) return secret;
      return encryptSecret(keyring.current(), secret, secretPlace(webhookId));
    },
    async findByHash(db, webhookId, hash) {
      const { secret = null, formerSecret = null } = (await findStoredSecrets(db, webhookId)) ?? {};
      return [secret, formerSecret]
        .flatMap((stored) => (stored === null ? [] : [decryptSecret(keyring, stored, secretPlace(webhookId))]))
        .find((candidate) => hashSecret(candidate) === hash);
    },
  };
}
