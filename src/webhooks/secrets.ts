import { createHmac, hkdfSync, randomBytes, randomUUID } from 'node:crypto';
import { closeSync, existsSync, fsyncSync, linkSync, openSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { BursarError, errnoCode } from '../domain/errors.ts';

/** The key of this installation, from which the secrets of all webhooks are derived. */
export interface SecretKey {
  /** Stored with each webhook. It shows that the key was replaced, and nothing of the key. */
  id: string;
  bytes: Buffer;
}

/** The secret of a webhook is derived from these. With `createdAt`, ids that are used again after a restore get other secrets. */
export interface SecretSource {
  webhookId: number;
  createdAt: number;
  /** 1 for the first secret. Each rotation increments it. */
  generation: number;
}

const keyBytes = 32;
const keyPattern = /^[A-Za-z0-9+/]{43}=$/;
export const secretPrefix = 'whsec_';

/** Derives a signing secret in the format of Standard Webhooks. */
export function deriveSecret(key: SecretKey, { webhookId, createdAt, generation }: SecretSource): string {
  return (
    secretPrefix + derive(key.bytes, `webhook ${webhookId} ${createdAt} ${generation}`, keyBytes).toString('base64')
  );
}

/** The text is 32 bytes in base64. */
export function toSecretKey(text: string): SecretKey {
  const bytes = Buffer.from(text, 'base64');
  return { id: derive(bytes, 'key id', 8).toString('hex'), bytes };
}

function derive(key: Buffer, context: string, length: number): Buffer {
  return Buffer.from(hkdfSync('sha256', key, '', `bursar ${context}`, length));
}

/** Reads the key of the data folder. The first start creates it; of several servers that start together, one does. */
export function openSecretKey(dataFolder: string): SecretKey {
  const file = join(dataFolder, 'webhook-key');
  if (!existsSync(file)) createKey(file);
  const text = readFileSync(file, 'utf8').trim();
  if (keyPattern.test(text)) return toSecretKey(text);
  const message = `${file} is not a key: it must have 32 bytes in base64. Restore it from your copy.`;
  throw new BursarError('invalid_config', message);
}

/** The key is complete and on the disk before another server or a webhook can use it. */
function createKey(file: string): void {
  const partial = `${file}.${randomUUID()}`;
  writeFileSync(partial, `${randomBytes(keyBytes).toString('base64')}\n`, { flag: 'wx', mode: 0o600, flush: true });
  try {
    linkSync(partial, file);
  } catch (error) {
    if (errnoCode(error) !== 'EEXIST') throw error;
  } finally {
    unlinkSync(partial);
  }
  const folder = openSync(dirname(file), 'r');
  fsyncSync(folder);
  closeSync(folder);
}

export interface WebhookMessage {
  /** The same for every attempt. */
  id: string;
  /** Time of this attempt, in seconds. */
  timestamp: number;
  body: string;
}

/** Returns the headers of Standard Webhooks, with one signature for each secret, so that secrets can be rotated. */
export function signedHeaders(
  { id, timestamp, body }: WebhookMessage,
  secrets: readonly string[],
): Record<string, string> {
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(secretPrefix.length), 'base64');
    return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
  });
  return { 'webhook-id': id, 'webhook-timestamp': String(timestamp), 'webhook-signature': signatures.join(' ') };
}
