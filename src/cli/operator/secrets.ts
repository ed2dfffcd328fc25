import { resolve } from 'node:path';
import type { Config } from '../../config/schema.ts';
import { BursarError } from '../../domain/errors.ts';
import { decryptSecret, encryptSecret, type Keyring, keyIdOf } from '../../secrets/cipher.ts';
import { createKey, readKeyFolder } from '../../secrets/key-folder.ts';
import { createKeyring, keyFolder } from '../../secrets/keyring.ts';
import type { Db } from '../../store/database/handle.ts';
import { convertStoredSecrets, readStoredSecrets, secretPlace } from '../../store/events/webhook-secrets.ts';
import { formatTable } from './format-table.ts';
import type { OperatorContext } from './operator.ts';

interface KeyStatus {
  /** Null for secrets that are not encrypted yet. */
  key: string | null;
  from: 'configuration' | 'data folder' | 'missing' | 'not encrypted';
  encrypts: boolean;
  secrets: number;
  /** How many of them cannot be decrypted, because the key is missing or wrong. */
  unreadable: number;
}

/** Prints how many secrets each key encrypts. Fails if one of them cannot be decrypted. */
export async function printStatus(
  { config, withDatabase, print, fail }: OperatorContext,
  { json }: { json: boolean },
): Promise<void> {
  const status = await withDatabase((db) => readStatus(config, db));
  if (status.some(({ unreadable }) => unreadable > 0)) fail();
  if (json) return print(`${JSON.stringify(status, null, 2)}\n`);
  if (status.length === 0) {
    return print('There are no secrets to encrypt yet. Bursar creates a key with the first webhook.\n');
  }
  const rows = status.map(({ key, from, encrypts, secrets, unreadable }) => [
    key ?? '-',
    from,
    encrypts ? 'yes' : '',
    `${secrets}`,
    `${unreadable}`,
  ]);
  print(formatTable([['KEY', 'FROM', 'ENCRYPTS', 'SECRETS', 'UNREADABLE'], ...rows]));
}

async function readStatus(config: Config, db: Db): Promise<KeyStatus[]> {
  const dataFolder = resolve(config.data);
  const keyring = createKeyring({ configuredKeys: config.secrets.keys, dataFolder });
  const configured = config.secrets.keys.map(({ id }) => id);
  const created = readKeyFolder(keyFolder(dataFolder)).map(({ id }) => id);
  const current = configured[0] ?? created.at(-1);
  const counts = new Map<string | null, { secrets: number; unreadable: number }>(
    [...configured, ...created].map((id) => [id, { secrets: 0, unreadable: 0 }]),
  );
  for await (const { id, secret, formerSecret } of readStoredSecrets(db))
    for (const stored of [secret, formerSecret]) {
      if (stored === null) continue;
      const { secrets, unreadable } = counts.get(keyIdOf(stored)) ?? { secrets: 0, unreadable: 0 };
      const isReadable = tryDecrypt(keyring, stored, id) !== undefined;
      counts.set(keyIdOf(stored), { secrets: secrets + 1, unreadable: unreadable + (isReadable ? 0 : 1) });
    }
  const sourceOf = (id: string | null) => {
    if (id === null) return 'not encrypted';
    if (configured.includes(id)) return 'configuration';
    return created.includes(id) ? 'data folder' : 'missing';
  };
  return [...counts].map(([key, count]) => ({
    key,
    from: sourceOf(key),
    encrypts: key !== null && key === current,
    ...count,
  }));
}

/** Returns undefined if the key is missing or wrong. */
function tryDecrypt(keyring: Keyring, stored: string, webhookId: number): string | undefined {
  try {
    return decryptSecret(keyring, stored, secretPlace(webhookId));
  } catch (error) {
    if (!(error instanceof BursarError) || error.code !== 'secret_unreadable') throw error;
    return undefined;
  }
}

/**
 * Encrypts all secrets under the first key of the configuration, or else under a new key in the data folder. Servers may be
 * running. Every secret is readable at any time, also if the command is killed: repeat it then.
 */
export async function rotate({ config, withDatabase, print, warn, fail }: OperatorContext): Promise<void> {
  const dataFolder = resolve(config.data);
  await withDatabase(async (db) => {
    if (await db.backend.dialect.hasOlderInstance(db)) {
      const message =
        'An instance of an older version uses the database, and cannot read encrypted secrets. Stop it first.';
      throw new BursarError('conflict', message);
    }
    if (config.secrets.keys.length === 0) createKey(keyFolder(dataFolder));
    const keyring = createKeyring({ configuredKeys: config.secrets.keys, dataFolder });
    const { changed, unreadable } = await reencrypt(db, keyring);
    print(`The key ${keyring.current().id} encrypts the secrets of ${changed} webhooks now.\n`);
    if (unreadable.size === 0) return;
    fail();
    const message = [...unreadable].map((webhook) => `webhook ${webhook}`).join(', ');
    warn(`Not changed, because their key is missing or wrong: ${message}. See "bursar secrets status".\n`);
  });
}

async function reencrypt(db: Db, keyring: Keyring): Promise<{ changed: number; unreadable: Set<number> }> {
  const unreadable = new Set<number>();
  const key = keyring.current();
  const changed = await convertStoredSecrets(db, (stored, id) => {
    if (keyIdOf(stored) === key.id) return stored;
    const secret = tryDecrypt(keyring, stored, id);
    if (secret !== undefined) return encryptSecret(key, secret, secretPlace(id));
    unreadable.add(id);
    return stored;
  });
  return { changed, unreadable };
}
