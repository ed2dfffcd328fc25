import { join } from 'node:path';
import type { Keyring, SecretKey } from './cipher.ts';
import { createKey, readKeyFolder } from './key-folder.ts';

export interface KeyringOptions {
  /** `secrets.keys` of the configuration: 32 bytes in base64 each. */
  configuredKeys: readonly { id: string; key: string }[];
  dataFolder: string;
}

export const keyFolder = (dataFolder: string): string => join(dataFolder, 'secret-keys');

/**
 * The keys of the configuration, and those that Bursar has created in the data folder. The first of the configuration
 * encrypts, or else the newest of the data folder. That folder is read again when a key is missing and before something is
 * encrypted, because a command or another instance may have added one.
 */
export function createKeyring({ configuredKeys, dataFolder }: KeyringOptions): Keyring {
  const folder = keyFolder(dataFolder);
  const configured = configuredKeys.map(({ id, key }): SecretKey => ({ id, bytes: Buffer.from(key, 'base64') }));
  let created: SecretKey[] | undefined;
  const byId = (id: string) => (key: SecretKey) => key.id === id;

  function readAgain(): SecretKey[] {
    created = readKeyFolder(folder);
    return created;
  }

  return {
    current: () => configured[0] ?? readAgain().at(-1) ?? createKey(folder),
    find: (id) => configured.find(byId(id)) ?? created?.find(byId(id)) ?? readAgain().find(byId(id)),
  };
}
