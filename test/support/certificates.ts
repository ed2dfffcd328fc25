import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runFile } from './command-line.ts';

export interface CertificateAuthority {
  /** The CA certificate. A process trusts it by NODE_EXTRA_CA_CERTS. */
  certificateFile: string;
  /** Issues a certificate for names and addresses such as `DNS:endpoint.test` and `IP:127.0.0.1`. */
  issue(...names: string[]): Promise<{ key: string; cert: string }>;
}

/** Creates a certificate authority for a test. */
export async function createCertificateAuthority(folder: string): Promise<CertificateAuthority> {
  mkdirSync(folder, { recursive: true });
  const pathTo = (name: string) => join(folder, name);
  const openssl = (...args: string[]) => runFile('openssl', args, { cwd: folder });
  const keyOptions = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  await openssl(
    'req',
    '-x509',
    ...keyOptions,
    '-keyout',
    'ca.key',
    '-out',
    'ca.pem',
    '-days',
    '2',
    '-subj',
    '/CN=Test CA',
  );
  let count = 0;
  return {
    certificateFile: pathTo('ca.pem'),
    async issue(...names) {
      const name = `leaf-${++count}`;
      writeFileSync(pathTo(`${name}.ext`), `subjectAltName=${names.join(',')}\n`);
      await openssl('req', ...keyOptions, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', '/CN=endpoint');
      const signing = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-extfile', `${name}.ext`];
      await openssl('x509', '-req', '-in', `${name}.csr`, ...signing, '-out', `${name}.pem`);
      return { key: readFileSync(pathTo(`${name}.key`), 'utf8'), cert: readFileSync(pathTo(`${name}.pem`), 'utf8') };
    },
  };
}
