import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseDatabaseUrl } from '../../src/config/database-url.ts';

describe('parseDatabaseUrl', () => {
  test('parses the file name of an SQLite URL', () => {
    for (const text of ['sqlite:bursar.db', 'sqlite://bursar.db']) {
      assert.deepEqual(parseDatabaseUrl(text), { kind: 'sqlite', file: 'bursar.db' });
    }
    assert.deepEqual(parseDatabaseUrl('sqlite:///var/lib/bursar.db'), { kind: 'sqlite', file: '/var/lib/bursar.db' });
  });

  test('parses a PostgreSQL URL and decodes percent-encoded characters', () => {
    const text = 'postgresql://me:a%20pass%3Aword%2F@db.example.org:6432/my%20database';
    assert.deepEqual(parseDatabaseUrl(text), {
      kind: 'postgres',
      host: 'db.example.org',
      port: 6432,
      user: 'me',
      password: 'a pass:word/',
      database: 'my database',
      sslmode: 'verify-full',
    });
  });

  test('parses the folder of a Unix socket', () => {
    for (const text of ['postgres:///bursar?host=/run/postgresql', 'postgres://%2Frun%2Fpostgresql/bursar']) {
      const address = { kind: 'postgres', host: '/run/postgresql', port: 5432, database: 'bursar', sslmode: 'disable' };
      assert.deepEqual(parseDatabaseUrl(text), address);
    }
  });

  const modes: [string, string][] = [
    ['postgres://localhost/b', 'disable'],
    ['postgres://127.0.0.1/b', 'disable'],
    ['postgres://[::1]/b', 'disable'],
    ['postgres:///b', 'disable'],
    ['postgres://10.0.0.1/b', 'verify-full'],
    ['postgres://10.0.0.1/b?sslmode=disable', 'disable'],
    ['postgres://localhost/b?sslmode=verify-ca', 'verify-ca'],
  ];
  for (const [text, mode] of modes) {
    test(`uses sslmode ${mode} for ${text}`, () => {
      const address = parseDatabaseUrl(text);
      assert.equal(address.kind === 'postgres' && address.sslmode, mode);
    });
  }

  const invalidUrls: [string, RegExp][] = [
    ['sqlite:', /has no file name/],
    ['mysql://localhost/b', /must begin with sqlite: or postgres:/],
    ['bursar.db', /must begin with/],
    ['postgres://localhost', /has no database name/],
    ['postgres://localhost/', /has no database name/],
    ['postgres://local host/b', /not well-formed/],
    ['postgres://me:secret@localhost:port/b', /not well-formed/],
    ['postgres://localhost/b?sslmode=prefer', /one of disable, require, verify-ca, verify-full/],
    ['postgres://localhost/b?sslMode=disable', /"sslMode" is not a known parameter/],
  ];
  for (const [text, message] of invalidUrls) {
    test(`rejects ${text}`, () => {
      assert.throws(() => parseDatabaseUrl(text), { code: 'invalid_config', message });
      assert.throws(
        () => parseDatabaseUrl(text),
        (error: Error) => !error.message.includes('secret'),
      );
    });
  }
});
