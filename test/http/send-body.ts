import { hostileLimits, makeZip } from '../files/hostile-zips.ts';
import type { Answer } from '../support/api.ts';
import { filesUnder } from '../support/refusals.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { shippedConfig } from '../support/shipped-config.ts';
import { until } from '../support/until.ts';
import { ask, bearer, type HeaderLine, type Wire } from '../support/wire.ts';

const maxBodyKb = 200;
export const maxBytes = maxBodyKb * 1000;

/** A server that takes small bodies, and small zips, only. */
export function startSmallServer(): Promise<TestServer> {
  const { maxEntries, maxUnpackedBytes, maxRatio } = hostileLimits;
  const submissions = { maxBodyKb, maxEntries, maxUnpackedKb: maxUnpackedBytes / 1000, maxRatio };
  return startServer({ config: { ...shippedConfig(), submissions } });
}

/** A zip in which nothing is wrong. */
export function goodZip(): Promise<Buffer> {
  return makeZip({ 'run.sh': '#!/bin/sh\necho hello\n', 'data.bin': Buffer.alloc(1000, 7) });
}

export const path = '/jobs/hpc_one/';

interface BodySender {
  /** The headers of a submission in which nothing but the body can be wrong. */
  headers(...more: HeaderLine[]): HeaderLine[];
  submit(body: string | Uint8Array, ...more: HeaderLine[]): Promise<Answer>;
  /** Sends the beginning of a body, and waits until some of it is on the server's disk. */
  sendBeginning(wire: Wire, head: Buffer, beginning: Uint8Array): Promise<void>;
}

/** Sends to the server that is there by then: tests start it after they have asked for this. */
export function bodySender(serverOf: () => TestServer): BodySender {
  const headers = (...more: HeaderLine[]): HeaderLine[] => [
    bearer(serverOf().userToken),
    ['content-disposition', 'attachment; filename=job.zip'],
    ['payload', '{"command": "true"}'],
    ...more,
  ];
  return {
    headers,
    submit: (body, ...more) => ask(serverOf().url, { method: 'POST', path, headers: headers(...more), body }),
    sendBeginning: async (wire, head, beginning) => {
      const server = serverOf();
      const before = filesUnder(server, 'spool').length;
      wire.write(head, beginning);
      await until('it has arrived', () => (filesUnder(server, 'spool').length > before ? true : undefined));
    },
  };
}

export function chunk(bytes: string | Uint8Array): Buffer {
  const data = Buffer.from(bytes);
  return Buffer.concat([Buffer.from(`${data.length.toString(16)}\r\n`), data, Buffer.from('\r\n')]);
}
export const lastChunk = '0\r\n\r\n';

export function codeIn({ body }: Answer): string {
  return String((body as { code?: string } | undefined)?.code);
}
