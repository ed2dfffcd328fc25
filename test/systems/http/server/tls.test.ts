import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect as connectTcp, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { type ConnectionOptions, connect, getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls';
import { createCaller } from '../../../support/api.ts';
import { type CertificateAuthority, createCertificateAuthority } from '../../../support/certificates.ts';
import { openEventStream } from '../../../support/event-stream.ts';
import { jobPath } from '../../../support/jobs.ts';
import { waitForLog } from '../../../support/logs.ts';
import { readMetric } from '../../../support/metrics.ts';
import { openRawConnection } from '../../../support/raw-http.ts';
import { type ServerProcess, spawnServer } from '../../../support/server-process.ts';
import { shippedConfig } from '../../../support/shipped-config.ts';
import { createLink } from '../../../support/sign-in.ts';
import { until } from '../../../support/until.ts';
import { createZip } from '../../../support/zip.ts';

const addressConnections = 40;

/** Even if the connection was reset, which `once` would throw. */
const closed = (socket: Socket) => new Promise<void>((resolve) => void socket.once('close', () => resolve()));

describe('a server with a certificate', () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-tls-'));
  const files = { certificate: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  const systemAuthorities = getCACertificates('default');
  let authority: CertificateAuthority;
  let server: ServerProcess;

  const use = ({ key, cert }: { key: string; cert: string }) => {
    writeFileSync(files.certificate, cert);
    writeFileSync(files.key, key, { mode: 0o600 });
  };

  before(async () => {
    authority = await createCertificateAuthority(join(folder, 'authority'));
    setDefaultCACertificates([...systemAuthorities, readFileSync(authority.certificateFile, 'utf8')]);
    use(await authority.issue('IP:127.0.0.1'));
    const limits = { connections: 2 * addressConnections };
    server = await spawnServer({ config: { ...shippedConfig(), server: { tls: files }, limits } });
  });
  after(async () => {
    setDefaultCACertificates(systemAuthorities);
    await server.dispose();
    rmSync(folder, { recursive: true, force: true });
  });

  const port = () => Number(new URL(server.url).port);

  /** Opens a connection. Rejects if the handshake fails. */
  async function openTls(options: ConnectionOptions = {}): Promise<TLSSocket> {
    const socket = connect({ host: '127.0.0.1', port: port(), ...options });
    await once(socket, 'secureConnect');
    return socket;
  }

  async function readSerial(): Promise<string> {
    const socket = await openTls();
    const { serialNumber } = socket.getPeerCertificate();
    socket.destroy();
    return serialNumber;
  }

  test('serves submissions with zips, event streams and downloads', async () => {
    assert.match(server.url, /^https:/);
    const me = createCaller(server.url, server.userToken);
    const stream = await openEventStream(server.url, server.userToken);
    const content = randomBytes(3_000_000);
    const zip = await createZip({ 'run.sh': '#!/bin/bash\nwc -c < data\n', data: content });
    const { status, body: job, text: answer } = await me.submit('/jobs/hpc_one/', { command: 'sbatch run.sh' }, zip);
    assert.equal(status, 201, answer);
    const ended = await me.waitUntilFinished(job);
    assert.equal(ended.stage, 'SUCCESSFUL', (await me.get(`${jobPath(job)}timeline/`)).text);
    assert.equal((await me.get(`${jobPath(job)}log/`)).text.trim(), String(content.length));
    const types = (await stream.waitForEvents(3)).map(({ type }) => type);
    assert.ok(types.includes('job.accepted'), types.join());
    stream.disconnect();
    const file = await me.send('GET', `${jobPath(job).replace('/jobs/', '/files/')}data`, { range: 'bytes=-5' });
    assert.deepEqual([file.status, file.headers.get('content-length')], [206, '5']);
  });

  test('sends secure cookies to browsers, also on its own host', async () => {
    const page = await fetch(server.url + (await createLink(server, '301330')));
    const form = Object.fromEntries(
      [...(await page.text()).matchAll(/name="(\w+)" value="([^"]*)"/g)].map((m) => [m[1], m[2]]),
    );
    const headers = { origin: server.url };
    const body = new URLSearchParams(form as Record<string, string>);
    const response = await fetch(`${server.url}/sign-in/`, { method: 'POST', redirect: 'manual', headers, body });
    assert.equal(response.status, 303, await response.text());
    assert.match(response.headers.get('set-cookie') ?? '', /^__Host-bursar_session=.*; Secure/);
  });

  test('refuses ciphers without forward secrecy or authenticated encryption', async () => {
    await assert.rejects(openTls({ maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES128-SHA' }));
    const socket = await openTls({ maxVersion: 'TLSv1.2' });
    assert.equal(socket.getProtocol(), 'TLSv1.2');
    socket.destroy();
  });

  test('answers malformed requests, and plain HTTP, and closes what is neither', async () => {
    const malformed = await openTls();
    malformed.write('nonsense\r\n\r\n');
    assert.match(await text(malformed), /^HTTP\/1\.1 400 .*not a well-formed HTTP request/s);
    const plain = await openRawConnection(server.url.replace('https:', 'http:'));
    plain.write('GET /jobs/ HTTP/1.1\r\nhost: bursar\r\n\r\n');
    const [response] = await plain.readUntilClosed();
    assert.equal(response?.status, 400);
    assert.match(response?.text ?? '', /This port needs TLS\. Use https:\/\//);
    const neither = connectTcp(port(), '127.0.0.1').on('error', () => undefined);
    neither.write('\0\0nonsense');
    neither.resume();
    await closed(neither);
  });

  test('limits the connections of an address, handshake or not', async () => {
    const sockets = Array.from({ length: addressConnections + 5 }, () => connectTcp(port(), '127.0.0.1'));
    let closed = 0;
    for (const socket of sockets) {
      socket.on('error', () => undefined).resume();
      socket.on('close', () => {
        closed += 1;
      });
    }
    await until('the connections above the limit are closed', () => closed >= 5 || undefined);
    for (const socket of sockets) socket.destroy();
    const me = createCaller(server.url, server.userToken);
    await until('the others are free again', async () => (await me.get('/quotas/').catch(() => null)) ?? undefined);
  });

  test('uses a new certificate without a restart; open connections and requests go on', async () => {
    const me = createCaller(server.url, server.userToken);
    const stream = await openEventStream(server.url, server.userToken);
    const before = await readSerial();
    const failures: unknown[] = [];
    let requests = 0;
    let isDone = false;
    const load = Array.from({ length: 4 }, async () => {
      while (!isDone) {
        const response = await fetch(`${server.url}/livez`, { headers: { connection: 'close' } }).catch(
          (error) => error,
        );
        requests += 1;
        if (response.status !== 200) failures.push(response);
      }
    });
    use(await authority.issue('IP:127.0.0.1'));
    server.process.kill('SIGHUP');
    await waitForLog(server, /"part":"TLS certificate","names":"IP Address:127\.0\.0\.1","validTo":"20.*"reloaded"/);
    assert.notEqual(await readSerial(), before);
    const atReload = requests;
    await until('requests after the reload', () => requests > atReload + 10 || undefined);
    isDone = true;
    await Promise.all(load);
    assert.deepEqual(failures, []);
    const count = stream.events().length;
    await me.submit('/jobs/hpc_one/', { command: 'true' });
    await stream.waitForEvents(count + 1);
    stream.disconnect();
  });

  test('keeps the certificate if the new files do not fit, and says so', async () => {
    const before = await readSerial();
    const { cert } = await authority.issue('IP:127.0.0.1');
    writeFileSync(files.certificate, cert);
    server.process.kill('SIGHUP');
    await waitForLog(server, /does not belong to the first certificate.*reload failed/);
    assert.equal(await readSerial(), before);
    const expiry = await readMetric(server.url, 'bursar_tls_certificate_expiry_seconds');
    assert.ok(expiry > Date.now() / 1000, String(expiry));
  });

  test('stops although a client has begun no handshake, or sent no request after it', async () => {
    const silent = connectTcp(port(), '127.0.0.1').on('error', () => undefined);
    await once(silent, 'connect');
    const idle = (await openTls()).on('error', () => undefined);
    silent.resume();
    idle.resume();
    const [code] = await Promise.all([server.stop(), closed(silent), closed(idle)]);
    assert.equal(code, 0);
  });
});
