import { msPerDay } from '../../domain/units.ts';
import { type Certificate, type CertificateFiles, readCertificate } from './certificate.ts';

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
