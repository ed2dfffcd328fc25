import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { openDatabase } from '../../../src/store/database/database.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';

const folder = mkdtempSync(join(tmpdir(), 'bursar-tls-'));
const filePath = (name: string) => join(folder, name);
let postgres: TestPostgres;

/** Creates a self-signed certificate. */
function createCertificate(name: string, subject: string): void {
  const files = ['-keyout', filePath(`${name}.key`), '-out', filePath(`${name}.crt`)];
  const options = ['-subj', `/CN=${subject}`, '-addext', `subjectAltName=DNS:${subject}`, '-days', '2'];
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', ...files, ...options], { stdio: 'ignore' });
}

before(async () => {
  createCertificate('server', 'localhost');
  createCertificate('untrusted', 'localhost');
  const files = {
    'server.key': readFileSync(filePath('server.key'), 'utf8'),
    'server.crt': readFileSync(filePath('server.crt'), 'utf8'),
  };
  const settings = ['ssl = on', "ssl_cert_file = '../server.crt'", "ssl_key_file = '../server.key'"];
  postgres = await startPostgres({ files, settings });
});
after(async () => {
  await postgres.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Connects, and returns whether the connection is encrypted. */
async function isEncrypted(host: string, parameters: string): Promise<boolean> {
  const url = `${postgres.url('postgres').replace('127.0.0.1', host)}?${parameters}`;
  const db = await openDatabase({ url }, folder);
  try {
    const { rows } = await sql<{ ssl: boolean }>`select ssl from pg_stat_ssl where pid = pg_backend_pid()`.execute(db);
    return rows[0]?.ssl === true;
  } finally {
    await db.destroy();
  }
}

test('does not encrypt on loopback by default', async () => {
  assert.equal(await isEncrypted('localhost', ''), false);
});

test('sslmode=verify-full encrypts if authority and host name match', async () => {
  assert.equal(await isEncrypted('localhost', `sslmode=verify-full&sslrootcert=${filePath('server.crt')}`), true);
});

test('sslmode=verify-full rejects a certificate for another host name, and names the option to change', async () => {
  const connecting = isEncrypted('127.0.0.1', `sslmode=verify-full&sslrootcert=${filePath('server.crt')}`);
  await assert.rejects(connecting, { code: 'invalid_config', message: /Cannot open a TLS connection .*sslmode/s });
});

test('sslmode=verify-ca accepts a certificate for another host name, but not of another authority', async () => {
  assert.equal(await isEncrypted('127.0.0.1', `sslmode=verify-ca&sslrootcert=${filePath('server.crt')}`), true);
  const connecting = isEncrypted('localhost', `sslmode=verify-ca&sslrootcert=${filePath('untrusted.crt')}`);
  await assert.rejects(connecting, { code: 'invalid_config', message: /Cannot open a TLS connection/ });
});

test('rejects a self-signed certificate without sslrootcert', async () => {
  await assert.rejects(isEncrypted('localhost', 'sslmode=verify-full'), { code: 'invalid_config' });
});

test('sslmode=require encrypts without verification', async () => {
  assert.equal(await isEncrypted('localhost', 'sslmode=require'), true);
});

test('rejects a missing sslrootcert file, and names it', async () => {
  const connecting = isEncrypted('localhost', 'sslmode=verify-full&sslrootcert=/nowhere.pem');
  await assert.rejects(connecting, { code: 'invalid_config', message: /sslrootcert .*nowhere\.pem/ });
});
