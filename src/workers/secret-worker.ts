import { decryptSecret, encryptSecret, type Keyring, keyIdOf } from '../secrets/cipher.ts';
import type { Db } from '../store/database/handle.ts';
import {
  convertStoredSecrets,
  eraseOverwrittenRows,
  readStoredSecrets,
  secretPlace,
} from '../store/events/webhook-secrets.ts';
import { type Logger, type Loop, maxTimerMs, startLoop } from './loop.ts';

export interface SecretWorkerDeps {
  db: Db;
  keyring: Keyring;
  /** How often the worker checks whether instances of the version before have ended. */
  intervalMs: number;
  log: Logger;
}

/**
 * Encrypts the secrets of webhooks that a version before 0.2 has stored as clear text. While an instance of such a version
 * runs on the same database the secrets stay as they are, because it could not sign deliveries. When this returns, it has
 * been tried once.
 */
export async function startSecretWorker(deps: SecretWorkerDeps): Promise<Loop> {
  const { db, intervalMs, log } = deps;
  let isDone = await encryptClearSecrets(deps);
  await reportUnreadableSecrets(deps);
  let isFirst = true;
  return startLoop(async () => {
    if (isFirst) isFirst = false;
    else if (!isDone) {
      isDone = await encryptClearSecrets(deps).catch((error) => {
        log.error({ err: error }, 'encrypting webhook secrets failed, will retry');
        return false;
      });
    }
    return isDone || db.backend.dialect.name === 'sqlite' ? maxTimerMs : intervalMs;
  });
}

/** Returns whether no secret is left as clear text. One that an instance stores meanwhile is found by the next call. */
async function encryptClearSecrets({ db, keyring, log }: SecretWorkerDeps): Promise<boolean> {
  if (await db.backend.dialect.hasOlderInstance(db)) {
    // It was not connected when they were encrypted, and has come back.
    if (await hasEncryptedSecrets(db))
      log.error('an instance of an older version signs webhook deliveries with a wrong secret: stop it');
    else log.warn('webhook secrets are encrypted when no instance of an older version uses the database');
    return false;
  }
  const count = await convertStoredSecrets(db, (stored, id) =>
    keyIdOf(stored) === null ? encryptSecret(keyring.current(), stored, secretPlace(id)) : stored,
  );
  if (count === 0) return true;
  log.info({ webhooks: count }, 'webhook secrets encrypted');
  try {
    await eraseOverwrittenRows(db);
  } catch (error) {
    log.warn({ err: error }, 'the database file may still contain overwritten secrets: run VACUUM on it');
  }
  return db.backend.dialect.name === 'sqlite';
}

async function hasEncryptedSecrets(db: Db): Promise<boolean> {
  for await (const { secret } of readStoredSecrets(db)) if (keyIdOf(secret) !== null) return true;
  return false;
}

async function reportUnreadableSecrets({ db, keyring, log }: SecretWorkerDeps): Promise<void> {
  let count = 0;
  let firstError: unknown;
  for await (const { id, secret } of readStoredSecrets(db)) {
    try {
      decryptSecret(keyring, secret, secretPlace(id));
    } catch (error) {
      count += 1;
      firstError ??= error;
    }
  }
  if (count > 0)
    log.error({ err: firstError, webhooks: count }, 'webhook secrets cannot be decrypted, deliveries wait');
}
