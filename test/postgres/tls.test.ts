import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { openDatabase } from '../../src/store/database/database.ts';
import { startPostgres, type TestPostgres } from '../support/postgres.ts';

const folder = mkdtempSync(join(tmpdir(), 'bursar-tls-'));
const at = (name: string) => join(folder, name);
let postgres: TestPostgres;

/** A certificate that vouches for itself. */
function certify(name: string, subject: string): void {
  const files = ['-keyout', at(`${name}.key`), '-out', at(`${name}.crt`)];
  const options = ['-subj', `/CN=${subject}`, '-addext', `subjectAltName=DNS:${subject}`, '-days', '2'];
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', ...files, ...options], { stdio: 'ignore' });
}

before(async () => {
  certify('server', 'localhost');
  certify('stranger', 'localhost');
  const files = {
    'server.key': readFileSync(at('server.key'), 'utf8'),
    'server.crt': readFileSync(at('server.crt'), 'utf8'),
  };
  const settings = ['ssl = on', "ssl_cert_file = '../server.crt'", "ssl_key_file = '../server.key'"];
  postgres = await startPostgres({ files, settings });
});
after(async () => {
  await postgres.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Whether a connection by this address is encrypted. */
async function connect(host: string, parameters: string): Promise<boolean> {
  const url = `${postgres.url('postgres').replace('127.0.0.1', host)}?${parameters}`;
  const db = await openDatabase(
    { url, connections: 1, connectTimeoutSeconds: 10, statementTimeoutSeconds: 30 },
    folder,
  );
  try {
    const { rows } = await sql<{ ssl: boolean }>`select ssl from pg_stat_ssl where pid = pg_backend_pid()`.execute(db);
    return rows[0]?.ssl === true;
  } finally {
    await db.destroy();
  }
}

test('on loopback nothing is encrypted unless asked for', async () => {
  assert.equal(await connect('localhost', ''), false);
});

test('verify-full with the right authority and name is encrypted', async () => {
  assert.equal(await connect('localhost', `sslmode=verify-full&sslrootcert=${at('server.crt')}`), true);
});

test('verify-full refuses a server of another name, and says what to do', async () => {
  const refused = connect('127.0.0.1', `sslmode=verify-full&sslrootcert=${at('server.crt')}`);
  await assert.rejects(refused, { code: 'invalid_config', message: /Cannot open a TLS connection .*sslmode/s });
});

test('verify-ca takes a server of another name, but not one of another authority', async () => {
  assert.equal(await connect('127.0.0.1', `sslmode=verify-ca&sslrootcert=${at('server.crt')}`), true);
  const refused = connect('localhost', `sslmode=verify-ca&sslrootcert=${at('stranger.crt')}`);
  await assert.rejects(refused, { code: 'invalid_config', message: /Cannot open a TLS connection/ });
});

test('without an authority of its own, a certificate that nobody vouches for is refused', async () => {
  await assert.rejects(connect('localhost', 'sslmode=verify-full'), { code: 'invalid_config' });
});

test('require encrypts, and asks no questions', async () => {
  assert.equal(await connect('localhost', 'sslmode=require'), true);
});

test('a file of certificates that is not there is named', async () => {
  const refused = connect('localhost', 'sslmode=verify-full&sslrootcert=/nowhere.pem');
  await assert.rejects(refused, { code: 'invalid_config', message: /sslrootcert .*nowhere\.pem/ });
});
