import { createHmac } from 'node:crypto';
import { secretPrefix } from './secret-key.ts';

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
