import { setTimeout as sleep } from 'node:timers/promises';
import { maxInMemoryBytes } from '../../../src/files/spool/upload-buffer.ts';
import { hostileLimits } from '../../files/zip/hostile-zips.ts';
import type { ApiResponse } from '../../support/api.ts';
import { listFilesUnder } from '../../support/problems.ts';
import { bearerHeader, type HeaderLine, type RawConnection, sendRawRequest } from '../../support/raw-http.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';
import { goodZip, largeZip } from './good-zip.ts';

const maxBodyKb = 200;
export const maxBytes = maxBodyKb * 1000;

/** A server that accepts small bodies and small zips only, and reads the rest of a rejected body for two seconds. */
export function startSmallServer(): Promise<TestServer> {
  const { maxEntries, maxUnpackedBytes, maxRatio } = hostileLimits;
  const submissions = { maxBodyKb, maxEntries, maxUnpackedKb: maxUnpackedBytes / 1000, maxRatio };
  const { server, ...config } = shippedConfig();
  return startServer({ config: { ...config, server: { ...server, requestTimeoutSeconds: 4 }, submissions } });
}

export const path = '/jobs/hpc_one/';

interface BodySender {
  /** The headers of a submission in which nothing but the body can be wrong. */
  headers(...more: HeaderLine[]): HeaderLine[];
  submit(body: string | Uint8Array, ...more: HeaderLine[]): Promise<ApiResponse>;
  /** Sends the beginning of a body, and waits until some is on the server's disk; what is held in memory leaves no trace. */
  sendBeginning(wire: RawConnection, head: Buffer, beginning: Uint8Array): Promise<void>;
  sendHalf(wire: RawConnection, head: Buffer, body: Uint8Array): Promise<void>;
}

/** Sends to the server that is there by then: tests start it after they have asked for this. */
export function bodySender(serverOf: () => TestServer): BodySender {
  const headers = (...more: HeaderLine[]): HeaderLine[] => [
    bearerHeader(serverOf().userToken),
    ['content-disposition', 'attachment; filename=job.zip'],
    ['payload', '{"command": "true"}'],
    ...more,
  ];
  const sendBeginning = async (wire: RawConnection, head: Buffer, beginning: Uint8Array) => {
    const server = serverOf();
    const before = listFilesUnder(server, 'spool').length;
    wire.write(head, beginning);
    if (beginning.length <= maxInMemoryBytes) await sleep(200);
    else await until('it has arrived', () => (listFilesUnder(server, 'spool').length > before ? true : undefined));
  };
  return {
    headers,
    submit: (body, ...more) =>
      sendRawRequest(serverOf().url, { method: 'POST', path, headers: headers(...more), body }),
    sendBeginning,
    sendHalf: (wire, head, body) => sendBeginning(wire, head, body.subarray(0, body.length / 2)),
  };
}

type Ending = [name: string, ending: 'destroy' | 'end', body: () => Promise<Buffer>];

/** How bodies end before their time, small ones and large ones. */
export const endings: Ending[] = [
  ['breaks off', 'destroy', goodZip],
  ['ends', 'end', goodZip],
  ['is large and breaks off', 'destroy', largeZip],
  ['is large and ends', 'end', largeZip],
];

export function chunk(bytes: string | Uint8Array): Buffer {
  const data = Buffer.from(bytes);
  return Buffer.concat([Buffer.from(`${data.length.toString(16)}\r\n`), data, Buffer.from('\r\n')]);
}
export const lastChunk = '0\r\n\r\n';

export function codeIn({ body }: ApiResponse): string {
  return String((body as { code?: string } | undefined)?.code);
}
