import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { BursarError } from '../../../src/domain/errors.ts';
import { hostileLimits, makeZip } from './hostile-zips.ts';
import { inspectZip } from './inspect-zip.ts';

let zip: Buffer;
before(async () => {
  zip = await makeZip({ 'run.sh': '#!/bin/sh\necho hello\n', 'data.bin': Buffer.alloc(1000, 7) });
});

describe('inspectZip', () => {
  const cases: [string, () => string | Uint8Array][] = [
    ['text', () => 'hello'],
    ['JSON', () => '{"command": "true"}'],
    ['one byte', () => 'P'],
    ['the first four bytes of a zip', () => 'PK\x03\x04'],
    ['zeros', () => Buffer.alloc(10_000)],
    ['a tar file compressed by gzip', () => gzipSync(Buffer.alloc(10_240))],
    ['a zip compressed by gzip', () => gzipSync(zip)],
    ['a zip in base64', () => zip.toString('base64')],
    ['a zip that has become UTF-8', () => zip.toString('latin1').replaceAll('\x07', '\u00e9')],
    ['half a zip', () => zip.subarray(0, zip.length / 2)],
    ['a zip with a byte more', () => Buffer.concat([zip, Buffer.from('!')])],
    ['a zip without its first byte', () => zip.subarray(1)],
  ];
  for (const [name, body] of cases) {
    test(`rejects ${name}`, async () => {
      const source = { kind: 'memory', bytes: Buffer.from(body()) } as const;
      const isInvalidZip = (error: unknown) => error instanceof BursarError && error.code === 'invalid_zip';
      await assert.rejects(inspectZip(source, hostileLimits), isInvalidZip);
    });
  }

  test('accepts the zip that these were made from', async () => {
    await inspectZip({ kind: 'memory', bytes: zip }, hostileLimits);
  });
});
