import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { deriveSecret, openSecretKey, toSecretKey } from '../../src/webhooks/secrets.ts';
import { temporaryFolder } from '../files/temporary.ts';

const key = toSecretKey(Buffer.alloc(32, 1).toString('base64'));
const source = { webhookId: 1, createdAt: 5, generation: 1 };

test('a secret depends on the key, the webhook, its creation and the generation, and on nothing else', () => {
  const otherKey = toSecretKey(Buffer.alloc(32, 2).toString('base64'));
  const secrets = [
    deriveSecret(key, source),
    deriveSecret(otherKey, source),
    deriveSecret(key, { ...source, webhookId: 2 }),
    deriveSecret(key, { ...source, createdAt: 6 }),
    deriveSecret(key, { ...source, generation: 2 }),
  ];
  assert.equal(new Set(secrets).size, secrets.length);
  // Versions must derive the same: receivers have this secret.
  assert.equal(secrets[0], 'whsec_9fpsxWoRqvlutI9nAyPyh5uOmOTraeuG/3k3/UdmRU4=');
  assert.notEqual(key.id, otherKey.id);
});

test('the key of the data folder is created once, for Bursar only, and must be complete', async (t) => {
  const folder = await temporaryFolder(t);
  const created = openSecretKey(folder);
  assert.deepEqual(openSecretKey(folder), created);
  assert.deepEqual(readdirSync(folder), ['webhook-key']);
  const file = join(folder, 'webhook-key');
  assert.equal(statSync(file).mode & 0o777, 0o600);
  writeFileSync(file, readFileSync(file, 'utf8').slice(1));
  assert.throws(() => openSecretKey(folder), { code: 'invalid_config', message: /is not a key: .* Restore it/ });
});
