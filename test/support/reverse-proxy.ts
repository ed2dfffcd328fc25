import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { createDaemons } from './daemons.ts';
import { freePorts } from './ports.ts';
import { until } from './until.ts';

export interface ReverseProxy {
  url: string;
  close(): Promise<void>;
}

interface ProxyOptions {
  /** A new folder for its files. */
  folder: string;
  certificate: { key: string; cert: string };
  /** Addresses such as 127.0.0.1:8080. */
  upstreams: readonly string[];
}

/** Runs nginx with the file that Bursar ships. Only ports, paths and upstreams differ. */
export async function startNginx(options: ProxyOptions): Promise<ReverseProxy> {
  const { folder, upstreams } = options;
  const { certFile, keyFile } = writeCertificate(options);
  const [plainPort = 0, port = 0] = await freePorts(2);
  const servers = upstreams.map((upstream) => `server ${upstream} max_fails`).join('=2 fail_timeout=5s;\n');
  const site = replaceAll(readShipped('nginx/bursar.conf'), [
    [/server 127\.0\.0\.1:8080 max_fails/, servers],
    [/listen 80;\n.*listen \[::\]:80;/, `listen 127.0.0.1:${plainPort};`],
    [/listen 443 ssl http2;\n.*listen \[::\]:443 ssl http2;/, `listen 127.0.0.1:${port} ssl http2;`],
    [/\/etc\/letsencrypt\/live\/.*\/fullchain\.pem/, certFile],
    [/\/etc\/letsencrypt\/live\/.*\/privkey\.pem/, keyFile],
  ]);
  writeFileSync(join(folder, 'site.conf'), site);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${name};`);
  const http = ['access_log off;', ...temporary, 'include site.conf;'].join('\n');
  const main = `daemon off;\npid nginx.pid;\nerror_log stderr;\nworker_processes 1;\nevents {}\nhttp {\n${http}\n}\n`;
  writeFileSync(join(folder, 'nginx.conf'), main);
  return await start('nginx', ['-p', folder, '-c', 'nginx.conf', '-e', 'stderr'], folder, port);
}

/** Runs Caddy with the file that Bursar ships. Only address, certificate and upstreams differ. */
export async function startCaddy(options: ProxyOptions): Promise<ReverseProxy> {
  const { folder, upstreams } = options;
  const { certFile, keyFile } = writeCertificate(options);
  const [port = 0] = await freePorts(1);
  const site = replaceAll(readShipped('caddy/Caddyfile'), [
    [/^bursar\.example\.org \{/m, `https://127.0.0.1:${port} {`],
    [/# tls \/etc\/.*/, `tls ${certFile} ${keyFile}`],
    [/reverse_proxy 127\.0\.0\.1:8080/, `reverse_proxy ${upstreams.join(' ')}`],
  ]);
  const file = join(folder, 'Caddyfile');
  // The port of the administration is the same for every Caddy on the host, and so are those of the redirect.
  writeFileSync(file, `{\n\tadmin off\n\tauto_https disable_redirects\n}\n${site}`);
  return await start('caddy', ['run', '--config', file, '--adapter', 'caddyfile'], folder, port);
}

const readShipped = (file: string) => readFileSync(new URL(`../../deploy/${file}`, import.meta.url), 'utf8');

/** Throws if a pattern does not occur: then the shipped file has changed. */
function replaceAll(text: string, replacements: readonly (readonly [RegExp, string])[]): string {
  return replacements.reduce((result, [pattern, replacement]) => {
    if (!pattern.test(result)) throw new Error(`the shipped file does not contain ${pattern}`);
    return result.replace(pattern, replacement);
  }, text);
}

function writeCertificate({ folder, certificate }: ProxyOptions): { certFile: string; keyFile: string } {
  mkdirSync(folder, { recursive: true });
  const certFile = join(folder, 'cert.pem');
  const keyFile = join(folder, 'key.pem');
  writeFileSync(certFile, certificate.cert);
  writeFileSync(keyFile, certificate.key, { mode: 0o600 });
  return { certFile, keyFile };
}

async function start(program: string, args: string[], folder: string, port: number): Promise<ReverseProxy> {
  const logs = join(folder, 'logs');
  mkdirSync(logs);
  const daemons = createDaemons(folder, logs, { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder });
  process.once('exit', daemons.killAll);
  daemons.start(program, program, args);
  const isListening = () =>
    new Promise<true | undefined>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.destroy();
        resolve(true);
      });
      socket.once('error', () => resolve(undefined));
    });
  await until(`${program} listens`, isListening).catch((error: Error) => {
    const log = join(logs, `${program}.out`);
    throw new Error(`${error.message}\n${existsSync(log) ? readFileSync(log, 'utf8') : ''}`);
  });
  return {
    url: `https://127.0.0.1:${port}`,
    close: async () => {
      await daemons.end(program, 'SIGTERM');
      process.off('exit', daemons.killAll);
    },
  };
}
