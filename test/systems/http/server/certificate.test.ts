import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Certificate, readCertificate } from '../../../../src/http/server/certificate.ts';
import { watchCertificate } from '../../../../src/http/server/certificate-watch.ts';
import { type CertificateAuthority, createCertificateAuthority } from '../../../support/certificates.ts';
import { runFile } from '../../../support/command-line.ts';
import { until } from '../../../support/until.ts';

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

describe('the watch of a certificate', () => {
  /** Watches the files until the test ends. */
  function watch(files: ReturnType<typeof write>, now = Date.now) {
    const lines: string[] = [];
    const replaced: string[] = [];
    const line = (fields: object, message: string) => void lines.push(`${message} ${JSON.stringify(fields)}`);
    const certificate = readCertificate(files);
    const onReplace = ({ names }: Certificate) => void replaced.push(names);
    const watching = watchCertificate({
      files,
      certificate,
      log: { info: line, warn: line, error: line },
      now,
      checkMs: 20,
      onReplace,
    });
    return { lines, replaced, ...watching };
  }

  test('uses new files, also behind a symbolic link, and keeps the old ones while the new ones do not fit', async (t) => {
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
    const { lines, replaced, stop } = watch({ certificate: join(live, 'cert.pem'), key: join(live, 'key.pem') });
    t.after(stop);

    link('cert.pem', 'archive-2');
    await until('the wrong pair is reported', () => lines.length > 0 || undefined);
    assert.match(lines[0] ?? '', /new TLS certificate not used.*does not belong to the first certificate/);
    assert.deepEqual(replaced, []);
    link('key.pem', 'archive-2');
    await until('the new pair is used', () => replaced.length > 0 || undefined);
    assert.deepEqual(replaced, ['DNS:second.test']);

    rmSync(join(live, 'key.pem'));
    await until('the missing file is reported', () => lines.length > 2 || undefined);
    assert.match(lines[2] ?? '', /new TLS certificate not used.*Cannot read server\.tls\.key/);
    assert.equal(lines.length, 3);
  });

  test('warns of a certificate that expires soon, has expired or is not valid yet, once a day', async (t) => {
    const msPerDay = 86_400_000;
    const files = write('expiry', first);
    const { validFromMs, validToMs } = readCertificate(files);
    const cases: [number, RegExp][] = [
      [
        validToMs - (validToMs - validFromMs) / 4,
        /^the TLS certificate expires soon and was not renewed: replace the files/,
      ],
      [validToMs, /^the TLS certificate has expired/],
      [validFromMs - 1 - msPerDay, /^the TLS certificate is not valid yet/],
    ];
    for (const [time, message] of cases) {
      let now = time;
      const { lines, stop } = watch(files, () => now);
      t.after(stop);
      assert.equal(lines.length, 1, lines.join('\n'));
      assert.match(lines[0] ?? '', message);
      now += msPerDay;
      await until('the second warning', () => lines.length > 1 || undefined);
      assert.equal(lines.length, 2);
    }
  });
});
