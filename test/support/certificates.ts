import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runFile } from './command-line.ts';

export interface CertificateAuthority {
  /** The file that makes a process trust it, by NODE_EXTRA_CA_CERTS. */
  certificateFile: string;
  /** A certificate for these names and addresses, such as `DNS:receiver.test` and `IP:127.0.0.1`. */
  issue(...names: string[]): Promise<{ key: string; cert: string }>;
}

/** A certificate authority of the test's own. */
export async function createCertificateAuthority(folder: string): Promise<CertificateAuthority> {
  mkdirSync(folder, { recursive: true });
  const at = (name: string) => join(folder, name);
  const openssl = (...args: string[]) => runFile('openssl', args, { cwd: folder });
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  await openssl('req', '-x509', ...key, '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '2', '-subj', '/CN=Test CA');
  let count = 0;
  return {
    certificateFile: at('ca.pem'),
    async issue(...names) {
      const name = `leaf-${++count}`;
      writeFileSync(at(`${name}.ext`), `subjectAltName=${names.join(',')}\n`);
      await openssl('req', ...key, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', '/CN=receiver');
      const signing = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-extfile', `${name}.ext`];
      await openssl('x509', '-req', '-in', `${name}.csr`, ...signing, '-out', `${name}.pem`);
      return { key: readFileSync(at(`${name}.key`), 'utf8'), cert: readFileSync(at(`${name}.pem`), 'utf8') };
    },
  };
}
