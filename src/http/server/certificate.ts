import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import { requirePrivate } from '../../config/private-file.ts';
import { BursarError } from '../../domain/errors.ts';
import { msPerDay } from '../../domain/units.ts';

/** Files in PEM format. */
export interface CertificateFiles {
  /** The certificate of the server, followed by those between it and the certificate authority. */
  certificate: string;
  key: string;
}

export interface Certificate {
  /** For a server, and for `setSecureContext`. */
  options: SecureContextOptions;
  /** The names and addresses that it is valid for. */
  names: string;
  validFromMs: number;
  validToMs: number;
}

/** Without the ciphers of TLS 1.2 that let a stolen key decrypt recorded connections. */
const ciphers = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
].join(':');

/** Reads and checks the files. Throws `invalid_config` with what to do unless a server can use them. */
export function readCertificate(files: CertificateFiles): Certificate {
  const [certFile, keyFile] = [`${files.certificate} (server.tls.certificate)`, `${files.key} (server.tls.key)`];
  const cert = readPem('server.tls.certificate', files.certificate);
  const key = readPem('server.tls.key', files.key);
  requirePrivate(files.key, statSync(files.key).mode, `can read the key ${keyFile}`);
  const notPem = `${certFile} is not a certificate in PEM format`;
  const parsed = attempt(notPem, () => new X509Certificate(cert));
  const notKey = `${keyFile} is not a private key in PEM format without a passphrase`;
  if (!parsed.checkPrivateKey(attempt(notKey, () => createPrivateKey(key)))) {
    const message =
      `The key ${keyFile} does not belong to the first certificate in ${certFile}. Use the files of one certificate. In a ` +
      'chain, the certificate of this server comes first.';
    throw new BursarError('invalid_config', message);
  }
  const options: SecureContextOptions = { cert, key, ciphers, minVersion: 'TLSv1.2' };
  attempt(`OpenSSL refuses the certificate ${certFile}`, () => createSecureContext(options));
  return {
    options,
    names: parsed.subjectAltName ?? parsed.subject,
    validFromMs: Date.parse(parsed.validFrom),
    validToMs: Date.parse(parsed.validTo),
  };
}

const readPem = (setting: string, file: string) =>
  attempt(`Cannot read ${setting} ${resolve(file)}`, () => readFileSync(file, 'utf8'));

function attempt<T>(problem: string, run: () => T): T {
  try {
    return run();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new BursarError('invalid_config', `${problem}: ${reason}`, { cause });
  }
}

export interface CertificateReloadDeps {
  files: CertificateFiles;
  /** The one in use. */
  certificate: Certificate;
  log: { warn(fields: object, message: string): void };
  now(): number;
  /** Called with every certificate that replaces the one in use. */
  onReplace(certificate: Certificate): void;
}

/** Certificates are usually renewed when a third of their life is left. */
const noticeMs = ({ validFromMs, validToMs }: Certificate) => Math.min(14 * msPerDay, (validToMs - validFromMs) / 4);

/** Replaces the certificate by the one in its files when it is told to. Warns once a day of one that is not valid for long. */
export function createCertificateReload({ files, certificate, log, now, onReplace }: CertificateReloadDeps) {
  let current = certificate;

  function warnOfExpiry(): void {
    const { names, validFromMs, validToMs } = current;
    if (validFromMs <= now() && now() < validToMs - noticeMs(current)) return;
    const fields = { names, validFrom: new Date(validFromMs), validTo: new Date(validToMs), ...files };
    log.warn(fields, describeValidity(current, now()));
  }

  warnOfExpiry();
  const timer = setInterval(warnOfExpiry, msPerDay).unref();
  return {
    /** Returns what to log. Throws unless a server can use the files: the certificate before stays. */
    reload(): { names: string; validTo: Date } {
      current = readCertificate(files);
      onReplace(current);
      warnOfExpiry();
      return { names: current.names, validTo: new Date(current.validToMs) };
    },
    stop: () => clearInterval(timer),
  };
}

function describeValidity({ validFromMs, validToMs }: Certificate, now: number): string {
  const toDo = 'renew the files of server.tls, and send Bursar SIGHUP, as "systemctl reload bursar" does';
  if (now >= validToMs) return `the TLS certificate has expired, clients refuse it: ${toDo}`;
  if (now < validFromMs)
    return `the TLS certificate is not valid yet, clients refuse it: ${toDo}, or correct the clock`;
  return `the TLS certificate in use expires soon: ${toDo}`;
}
