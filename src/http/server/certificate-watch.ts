import { statSync } from 'node:fs';
import { errnoCode } from '../../domain/errors.ts';
import { msPerDay } from '../../domain/units.ts';
import { type Certificate, type CertificateFiles, readCertificate } from './certificate.ts';

export interface CertificateWatchDeps {
  files: CertificateFiles;
  /** The one in use. */
  certificate: Certificate;
  log: {
    info(fields: object, message: string): void;
    warn(fields: object, message: string): void;
    error(fields: object, message: string): void;
  };
  now(): number;
  /** Between two checks of the files. */
  checkMs?: number;
  /** Called with every certificate that replaces the one in use. */
  onReplace(certificate: Certificate): void;
}

const defaultCheckMs = 5000;
/** Certificates are usually renewed when a third of their life is left. */
const noticeMs = ({ validFromMs, validToMs }: Certificate) => Math.min(14 * msPerDay, (validToMs - validFromMs) / 4);

/**
 * Replaces the certificate when its files change. It polls them, because programs that renew certificates replace files,
 * symbolic links or whole folders, and a watch of a file would end with the file. New files that a server cannot use change
 * nothing: the certificate in use stays.
 */
export function watchCertificate(deps: CertificateWatchDeps) {
  const { files, log, now, checkMs = defaultCheckMs, onReplace } = deps;
  let current = deps.certificate;
  let loadedVersion = readVersion(files);
  let lastVersion = loadedVersion;
  let noticedAt = Number.NEGATIVE_INFINITY;

  /** Reads the files, also if they did not change. Throws unless a server can use them. */
  function reload(): void {
    loadedVersion = readVersion(files);
    const next = readCertificate(files);
    onReplace(next);
    current = next;
    noticedAt = Number.NEGATIVE_INFINITY;
    log.info({ names: next.names, validTo: new Date(next.validToMs) }, 'TLS certificate loaded');
    warnOfExpiry();
  }

  function tryReload(): void {
    try {
      reload();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      log.error({ reason }, 'new TLS certificate not used: the one before stays until the files are corrected');
    }
  }

  function warnOfExpiry(): void {
    const { names, validFromMs, validToMs } = current;
    const isValid = validFromMs <= now() && now() < validToMs - noticeMs(current);
    if (isValid || now() < noticedAt + msPerDay) return;
    noticedAt = now();
    const fields = { names, validFrom: new Date(validFromMs), validTo: new Date(validToMs), ...files };
    log.warn(fields, describeValidity(current, now()));
  }

  function check(): void {
    const version = readVersion(files);
    // Certificate and key are replaced one after the other: they are read once both have stayed the same for a while.
    if (version !== loadedVersion && version === lastVersion) tryReload();
    lastVersion = version;
    warnOfExpiry();
  }

  warnOfExpiry();
  const timer = setInterval(check, checkMs).unref();
  return { reload, stop: () => clearInterval(timer) };
}

function describeValidity({ validFromMs, validToMs }: Certificate, now: number): string {
  const toDo = 'replace the files of server.tls; Bursar reads them without a restart';
  if (now >= validToMs) return `the TLS certificate has expired, clients refuse it: ${toDo}`;
  if (now < validFromMs)
    return `the TLS certificate is not valid yet, clients refuse it: ${toDo}, or correct the clock`;
  return `the TLS certificate expires soon and was not renewed: ${toDo}`;
}

/** Changes when one of the files is replaced or written, also through a symbolic link. */
function readVersion({ certificate, key }: CertificateFiles): string {
  return [certificate, key]
    .map((file) => {
      try {
        const { dev, ino, mtimeMs, ctimeMs, size } = statSync(file);
        return `${dev} ${ino} ${mtimeMs} ${ctimeMs} ${size}`;
      } catch (error) {
        return errnoCode(error);
      }
    })
    .join(' | ');
}
