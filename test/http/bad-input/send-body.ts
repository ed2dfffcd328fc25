import { setTimeout as sleep } from 'node:timers/promises';
import type { Tuning } from '../../../src/composition/tuning.ts';
import { maxInMemoryBytes } from '../../../src/files/spool/spool.ts';
import { hostileLimits } from '../../files/zip/hostile-zips.ts';
import type { ApiResponse } from '../../support/api.ts';
import { listFilesUnder } from '../../support/problems.ts';
import { bearerHeader, type HeaderLine, type RawConnection, sendRawRequest } from '../../support/raw-http.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';
import { createLargeZip, createValidZip } from './valid-zip.ts';

const maxBodyKb = 200;
export const maxBytes = maxBodyKb * 1000;

/**
 * A server that accepts small bodies and small zips only. It reads the rest of a rejected body for half of
 * `requestTimeoutSeconds`, at most 30 s.
 */
export function startSmallServer({
  requestTimeoutSeconds = 3600,
  tuning = {},
}: {
  requestTimeoutSeconds?: number;
  tuning?: Partial<Tuning>;
} = {}): Promise<TestServer> {
  const { maxEntries, maxUnpackedBytes } = hostileLimits;
  const submissions = { maxBodyKb, maxEntries, maxUnpackedKb: maxUnpackedBytes / 1000 };
  const { server, ...config } = shippedConfig();
  return startServer({ config: { ...config, server: { ...server, requestTimeoutSeconds }, submissions }, tuning });
}

export const path = '/jobs/hpc_one/';

interface BodySender {
  /** The headers of a submission that is valid except for the body. */
  headers(...more: HeaderLine[]): HeaderLine[];
  submit(body: string | Uint8Array, ...more: HeaderLine[]): Promise<ApiResponse>;
  /** Sends the beginning of a body. Waits until the server has written to its spool; small bodies stay in memory. */
  sendBeginning(connection: RawConnection, head: Buffer, beginning: Uint8Array): Promise<void>;
  sendHalf(connection: RawConnection, head: Buffer, body: Uint8Array): Promise<void>;
}

/** Takes a function because tests start the server later, in `before`. */
export function createBodySender(getServer: () => TestServer): BodySender {
  const headers = (...more: HeaderLine[]): HeaderLine[] => [
    bearerHeader(getServer().userToken),
    ['content-disposition', 'attachment; filename=job.zip'],
    ['payload', '{"command": "true"}'],
    ...more,
  ];
  const sendBeginning = async (connection: RawConnection, head: Buffer, beginning: Uint8Array) => {
    const server = getServer();
    const before = listFilesUnder(server, 'spool').length;
    connection.write(head, beginning);
    if (beginning.length <= maxInMemoryBytes) await sleep(200);
    else
      await until('a spool file appears', () => (listFilesUnder(server, 'spool').length > before ? true : undefined));
  };
  return {
    headers,
    submit: (body, ...more) =>
      sendRawRequest(getServer().url, { method: 'POST', path, headers: headers(...more), body }),
    sendBeginning,
    sendHalf: (connection, head, body) => sendBeginning(connection, head, body.subarray(0, body.length / 2)),
  };
}

type Ending = [name: string, ending: 'destroy' | 'end', body: () => Promise<Buffer>];

/** The ways in which a small or large body ends too early. */
export const earlyEnds: Ending[] = [
  ['loses its connection', 'destroy', createValidZip],
  ['ends', 'end', createValidZip],
  ['is large and breaks off', 'destroy', createLargeZip],
  ['is large and ends', 'end', createLargeZip],
];

export function chunk(bytes: string | Uint8Array): Buffer {
  const data = Buffer.from(bytes);
  return Buffer.concat([Buffer.from(`${data.length.toString(16)}\r\n`), data, Buffer.from('\r\n')]);
}
export const lastChunk = '0\r\n\r\n';

export function getCode({ body }: ApiResponse): string {
  return String((body as { code?: string } | undefined)?.code);
}
