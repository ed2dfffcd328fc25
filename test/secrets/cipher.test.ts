import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import { decryptSecret, encryptSecret, type Keyring, keyIdOf, type SecretKey } from '../../src/secrets/cipher.ts';
import { createKey, readKeyFolder } from '../../src/secrets/key-folder.ts';
import { createKeyring, keyFolder } from '../../src/secrets/keyring.ts';

const key = (id: string, byte: number): SecretKey => ({ id, bytes: Buffer.alloc(32, byte) });
const keyringOf = (...keys: SecretKey[]): Keyring => ({
  current: () => keys[0] ?? assert.fail('no key'),
  find: (id) => keys.find((candidate) => candidate.id === id),
});
const unreadable = { code: 'secret_unreadable' };

function newFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test('an encrypted secret names its key, contains nothing of the secret, and is decrypted again', () => {
  fc.assert(
    fc.property(fc.string({ minLength: 5 }), (secret) => {
      const stored = encryptSecret(key('k.1', 1), secret, 'webhooks/1');
      assert.equal(keyIdOf(stored), 'k.1');
      assert.ok(!stored.includes(secret) && !stored.includes(Buffer.from(secret).toString('base64')));
      assert.equal(decryptSecret(keyringOf(key('k.2', 2), key('k.1', 1)), stored, 'webhooks/1'), secret);
      assert.notEqual(encryptSecret(key('k.1', 1), secret, 'webhooks/1'), stored, 'another nonce each time');
    }),
  );
  assert.equal(decryptSecret(keyringOf(), 'whsec_clear', 'webhooks/1'), 'whsec_clear');
});

test('it is not decrypted in another place, with another key, without its key, or after any change', () => {
  const stored = encryptSecret(key('a', 1), 'whsec_secret', 'webhooks/1');
  assert.throws(() => decryptSecret(keyringOf(key('a', 1)), stored, 'webhooks/2'), unreadable);
  assert.throws(() => decryptSecret(keyringOf(key('a', 2)), stored, 'webhooks/1'), unreadable);
  assert.throws(() => decryptSecret(keyringOf(key('b', 1)), stored, 'webhooks/1'), {
    ...unreadable,
    message: /key a, .*missing/,
  });
  const [, data = ''] = stored.split('enc:1:a:');
  const bytes = Buffer.from(data, 'base64');
  for (const index of bytes.keys()) {
    const changed = Buffer.from(bytes);
    changed[index] = (changed[index] ?? 0) ^ 1;
    assert.throws(
      () => decryptSecret(keyringOf(key('a', 1)), `enc:1:a:${changed.toString('base64')}`, 'webhooks/1'),
      unreadable,
    );
  }
  for (let length = 0; length < bytes.length; length += 1) {
    const shortened = `enc:1:a:${bytes.subarray(0, length).toString('base64')}`;
    assert.throws(() => decryptSecret(keyringOf(key('a', 1)), shortened, 'webhooks/1'), unreadable);
  }
});

test('the first use creates a key that only its owner can read, and the newest key encrypts', (t) => {
  const dataFolder = newFolder(t);
  const folder = keyFolder(dataFolder);
  const umask = process.umask(0);
  t.after(() => process.umask(umask));
  const keyring = createKeyring({ configuredKeys: [], dataFolder });
  const first = keyring.current();
  assert.deepEqual(readdirSync(folder), [`${first.id}.key`]);
  assert.equal(statSync(folder).mode & 0o777, 0o700);
  assert.equal(statSync(join(folder, `${first.id}.key`)).mode & 0o777, 0o600);
  assert.deepEqual(keyring.current(), first);
  const second = createKey(folder, new Date(Date.now() + 5000));
  assert.deepEqual(keyring.current(), second, 'a key of another process is found');
  assert.deepEqual([keyring.find(first.id), keyring.find(second.id), keyring.find('x')], [first, second, undefined]);
});

test('the first key of the configuration encrypts, and all keys decrypt', (t) => {
  const dataFolder = newFolder(t);
  const created = createKey(keyFolder(dataFolder));
  const configuredKeys = [key('b', 2), key('a', 1)].map(({ id, bytes }) => ({ id, key: bytes.toString('base64') }));
  const keyring = createKeyring({ configuredKeys, dataFolder });
  assert.deepEqual(keyring.current(), key('b', 2));
  assert.deepEqual(
    ['a', created.id].map((id) => keyring.find(id)),
    [key('a', 1), created],
  );
  const other = newFolder(t);
  createKeyring({ configuredKeys, dataFolder: other }).current();
  assert.deepEqual(readdirSync(other), [], 'no key is created that nobody needs');
});

test('a key that others can read is closed to them, and a file that is no key is refused', (t) => {
  const folder = newFolder(t);
  const { id } = createKey(folder);
  const file = join(folder, `${id}.key`);
  chmodSync(file, 0o644);
  readKeyFolder(folder);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  writeFileSync(join(folder, '.unfinished.partial'), '');
  assert.equal(readKeyFolder(folder).length, 1);
  writeFileSync(file, readFileSync(file, 'utf8').slice(0, 20));
  assert.throws(() => readKeyFolder(folder), { code: 'invalid_config', message: /is not a key/ });
});

test('a new key is the newest, even if the clock stands still or goes back', (t) => {
  const folder = keyFolder(newFolder(t));
  const now = Date.UTC(2026, 10, 18, 23, 59, 59);
  const created = [0, 0, 0, 999, -86_400_000, 5000].map((offset) => createKey(folder, new Date(now + offset)).id);
  assert.deepEqual(
    readKeyFolder(folder).map(({ id }) => id),
    created,
  );
});
