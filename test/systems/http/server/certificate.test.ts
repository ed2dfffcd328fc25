import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { type Certificate, createCertificateReload, readCertificate } from '../../../../src/http/server/certificate.ts';
import { type CertificateAuthority, createCertificateAuthority } from '../../../support/certificates.ts';
import { runFile } from '../../../support/command-line.ts';

const folder = mkdtempSync(join(tmpdir(), 'bursar-certificate-'));
let authority: CertificateAuthority;
let first: { key: string; cert: string };
let second: { key: string; cert: string };

before(async () => {
  authority = await createCertificateAuthority(join(folder, 'authority'));
  first = await authority.issue('DNS:first.test');
  second = await authority.issue('DNS:second.test');
});
after(() => rmSync(folder, { recursive: true, force: true }));

/** Writes the files, with the modes that a server accepts. */
function write(name: string, { key, cert }: { key: string; cert: string }) {
  mkdirSync(join(folder, name));
  const files = { certificate: join(folder, name, 'cert.pem'), key: join(folder, name, 'key.pem') };
  writeFileSync(files.certificate, cert);
  writeFileSync(files.key, key, { mode: 0o600 });
  return files;
}

describe('the files of server.tls', () => {
  test('give the names and the validity of the certificate', () => {
    const { names, validFromMs, validToMs } = readCertificate(write('valid', first));
    assert.equal(names, 'DNS:first.test');
    assert.ok(validFromMs <= Date.now() && Date.now() < validToMs);
  });

  test('are refused with what to do if a server cannot use them', async () => {
    const files = write('refused', first);
    const { certificate, key } = write('other', second);
    const notPem = join(folder, 'not-pem');
    writeFileSync(notPem, 'text', { mode: 0o600 });
    const encrypted = join(folder, 'encrypted.pem');
    await runFile('openssl', ['ec', '-in', key, '-aes128', '-passout', 'pass:secret', '-out', encrypted]);
    chmodSync(encrypted, 0o600);
    const refused: [Partial<typeof files>, RegExp][] = [
      [{ certificate: join(folder, 'missing') }, /^Cannot read server\.tls\.certificate .*missing: ENOENT/],
      [{ key: join(folder, 'missing') }, /^Cannot read server\.tls\.key .*missing: ENOENT/],
      [{ certificate: notPem }, /not-pem \(server\.tls\.certificate\) is not a certificate in PEM format/],
      [{ key: notPem }, /not-pem \(server\.tls\.key\) is not a private key in PEM format without a passphrase/],
      [{ key: encrypted }, /is not a private key in PEM format without a passphrase/],
      [{ key }, /does not belong to the first certificate in .*refused.*Use the files of one certificate/],
      [{ certificate }, /does not belong to the first certificate in .*other/],
    ];
    for (const [wrong, message] of refused)
      assert.throws(() => readCertificate({ ...files, ...wrong }), { code: 'invalid_config', message });
  });

  test('are refused if other users can read the key; a group may', () => {
    const files = write('modes', first);
    chmodSync(files.key, 0o640);
    readCertificate(files);
    chmodSync(files.key, 0o644);
    assert.throws(() => readCertificate(files), { code: 'invalid_config', message: /Run "chmod o-rwx .*key\.pem"/ });
  });

  test('may hold a chain, the certificate of the server first', async () => {
    const { cert } = await authority.issue('DNS:another.test');
    readCertificate(write('chain', { ...first, cert: first.cert + cert }));
    assert.throws(() => readCertificate(write('wrong-chain', { ...first, cert: cert + first.cert })), {
      message: /In a chain, the certificate of this server comes first/,
    });
  });
});

describe('the reload of a certificate', () => {
  /** A server that uses the files, until the test ends. */
  function serve(t: TestContext, files: ReturnType<typeof write>, now = Date.now) {
    const warnings: string[] = [];
    const replaced: string[] = [];
    const { reload, stop } = createCertificateReload({
      files,
      certificate: readCertificate(files),
      log: { warn: (_fields, message) => void warnings.push(message) },
      now,
      onReplace: ({ names }: Certificate) => void replaced.push(names),
    });
    t.after(stop);
    return { warnings, replaced, reload };
  }

  test('uses new files, also behind a symbolic link, and keeps the old ones while the new ones do not fit', (t) => {
    const live = join(folder, 'live');
    write('archive-1', first);
    write('archive-2', second);
    /** As certbot does: the folder stays, its links change. */
    const link = (name: string, archive: string) => {
      symlinkSync(join(folder, archive, name), join(live, 'new'));
      renameSync(join(live, 'new'), join(live, name));
    };
    mkdirSync(live);
    link('cert.pem', 'archive-1');
    link('key.pem', 'archive-1');
    const { replaced, reload } = serve(t, { certificate: join(live, 'cert.pem'), key: join(live, 'key.pem') });

    link('cert.pem', 'archive-2');
    assert.throws(reload, /does not belong to the first certificate/);
    assert.deepEqual(replaced, []);
    link('key.pem', 'archive-2');
    const { names, validTo } = reload();
    assert.deepEqual([names, replaced], ['DNS:second.test', ['DNS:second.test']]);
    assert.ok(validTo.getTime() > Date.now());

    rmSync(join(live, 'key.pem'));
    assert.throws(reload, /Cannot read server\.tls\.key/);
    assert.equal(replaced.length, 1);
  });

  test('is asked for by a warning if the certificate expires soon, has expired or is not valid yet, once a day', (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] });
    const msPerDay = 86_400_000;
    const files = write('expiry', first);
    const { validFromMs, validToMs } = readCertificate(files);
    const cases: [number, RegExp][] = [
      [
        validToMs - (validToMs - validFromMs) / 4,
        /^the TLS certificate in use expires soon: renew the files .* SIGHUP/,
      ],
      [validToMs, /^the TLS certificate has expired/],
      [validFromMs - 1, /^the TLS certificate is not valid yet/],
    ];
    for (const [time, message] of cases) {
      const { warnings } = serve(t, files, () => time);
      assert.equal(warnings.length, 1, warnings.join('\n'));
      assert.match(warnings[0] ?? '', message);
      t.mock.timers.tick(msPerDay);
      assert.equal(warnings.length, 2);
    }
    const { warnings } = serve(t, files, () => validFromMs);
    t.mock.timers.tick(msPerDay);
    assert.deepEqual(warnings, []);
  });
});
