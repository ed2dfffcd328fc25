import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseDatabaseUrl } from '../../src/config/database-url.ts';

describe('the address of a database', () => {
  test('names a file of SQLite', () => {
    for (const text of ['sqlite:bursar.db', 'sqlite://bursar.db']) {
      assert.deepEqual(parseDatabaseUrl(text), { kind: 'sqlite', file: 'bursar.db' });
    }
    assert.deepEqual(parseDatabaseUrl('sqlite:///var/lib/bursar.db'), { kind: 'sqlite', file: '/var/lib/bursar.db' });
  });

  test('names a PostgreSQL, with what is special in it percent-encoded', () => {
    const text = 'postgresql://me:a%20pass%3Aword%2F@db.example.org:6432/my%20books';
    assert.deepEqual(parseDatabaseUrl(text), {
      kind: 'postgres',
      host: 'db.example.org',
      port: 6432,
      user: 'me',
      password: 'a pass:word/',
      database: 'my books',
      sslmode: 'verify-full',
    });
  });

  test('names a socket by its folder', () => {
    for (const text of ['postgres:///books?host=/run/postgresql', 'postgres://%2Frun%2Fpostgresql/books']) {
      const address = { kind: 'postgres', host: '/run/postgresql', port: 5432, database: 'books', sslmode: 'disable' };
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
    test(`${text} is reached with sslmode ${mode}`, () => {
      const address = parseDatabaseUrl(text);
      assert.equal(address.kind === 'postgres' && address.sslmode, mode);
    });
  }

  const faults: [string, RegExp][] = [
    ['sqlite:', /names no file/],
    ['mysql://localhost/b', /must begin with sqlite: or postgres:/],
    ['bursar.db', /must begin with/],
    ['postgres://localhost', /names no database/],
    ['postgres://localhost/', /names no database/],
    ['postgres://local host/b', /not well-formed/],
    ['postgres://me:secret@localhost:port/b', /not well-formed/],
    ['postgres://localhost/b?sslmode=prefer', /one of disable, require, verify-ca, verify-full/],
    ['postgres://localhost/b?sslMode=disable', /"sslMode" is not known/],
  ];
  for (const [text, says] of faults) {
    test(`${text} is refused`, () => {
      assert.throws(() => parseDatabaseUrl(text), { code: 'invalid_config', message: says });
      assert.throws(
        () => parseDatabaseUrl(text),
        (error: Error) => !error.message.includes('secret'),
      );
    });
  }
});
