import { extname } from 'node:path';
import Type from 'typebox';
import { namedObject } from '../../contract/fields.ts';
import { type ClientPackage, listClientPackages, readClientPackage } from '../../services/client-packages.ts';
import { notModified, operation, operations } from '../operation.ts';
import { html, sendPage } from '../response/page.ts';
import type { RouteContext } from './context.ts';

const server = 'https://bursar.example.org';

/** A program or a library for users that this server offers. */
const ClientPackageSchema = namedObject(
  'ClientPackage',
  {
    name: Type.String({ description: 'The name of the file.' }),
    description: Type.String(),
    install: Type.String({ description: 'The command that installs it.' }),
    url: Type.String({ description: 'Address of the download.' }),
    size: Type.Integer({ description: 'Bytes.' }),
    sha256: Type.String({ description: 'SHA-256 of the file, in hexadecimal.' }),
  },
  {
    name: 'bursar.mjs',
    description: 'The command line, as one file for Node 20.15 or newer.',
    install: `curl -O ${server}/clients/bursar.mjs`,
    url: `${server}/clients/bursar.mjs`,
    size: 204_800,
    sha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  },
);

/** The command line and the libraries for users, to install from this server. They need no token. */
export const clientOperations = (context: RouteContext) =>
  operations('clients', {
    listClients: operation({
      route: 'GET /clients/',
      access: 'public',
      summary: 'List the command line and the libraries, with their hashes',
      description: 'They were built together with this server. Browsers and pip get the list as a page.',
      responses: { 200: Type.Array(ClientPackageSchema) },
      handler: async (request, reply) => {
        const origin = context.browser.originOf(request);
        const described = (await listClientPackages(context)).map((each) => describePackage(each, origin));
        reply.header('vary', 'Accept');
        if (!request.headers.accept?.includes('text/html')) return described;
        return sendPage(reply, 200, { title: 'Command line and libraries', body: listOf(described) });
      },
    }),
    getClient: operation({
      route: 'GET /clients/{name}',
      access: 'public',
      summary: 'Download the command line or a library',
      description: 'It needs no token. The entity tag is the SHA-256 of the file.',
      responses: {
        200: {
          description: 'The file.',
          headers: ['ETag'],
          content: { 'application/octet-stream': { schema: Type.String({ format: 'binary' }) } },
        },
        304: notModified,
      },
      handler: async ({ params, headers }, reply) => {
        const { name, content, sha256 } = await readClientPackage(context, params.name);
        const etag = `"${sha256}"`;
        reply.header('etag', etag).header('cache-control', 'no-cache');
        if (headers['if-none-match'] === etag) return reply.code(304).send();
        return reply.type(kindOf(name)?.mediaType ?? 'application/octet-stream').send(content);
      },
    }),
  });

const kinds: Record<string, { mediaType: string; description: string; install(url: string): string }> = {
  '.mjs': {
    mediaType: 'text/javascript; charset=utf-8',
    description: 'The command line, as one file for Node 20.15 or newer: node bursar.mjs --help',
    install: (url: string) => `curl -O ${url}`,
  },
  '.whl': {
    mediaType: 'application/octet-stream',
    description: 'The library for Python 3.9 or newer, and for notebooks.',
    install: (url: string) => `pip install ${url}`,
  },
  '.tgz': {
    mediaType: 'application/gzip',
    description: 'The library for TypeScript and JavaScript, for browsers and Node 20.15 or newer.',
    install: (url: string) => `npm install ${url}`,
  },
};
const kindOf = (name: string) => kinds[extname(name)];

function describePackage({ name, content, sha256 }: ClientPackage, origin: string) {
  const url = `${origin}/clients/${name}`;
  const kind = kindOf(name);
  return {
    name,
    description: kind?.description ?? '',
    install: kind?.install(url) ?? '',
    url,
    size: content.length,
    sha256,
  };
}

/** With the hash in the link, as pip wants it: `pip install --find-links <page> bursar` checks the file. */
const listOf = (packages: readonly ReturnType<typeof describePackage>[]) =>
  html`${packages.map(
    ({ name, description, install, url, size, sha256 }) => html`<h2><a href="${url}#sha256=${sha256}">${name}</a></h2>
<p>${description}</p>
<p><code>${install}</code></p>
<dl><dt>Size</dt><dd>${Math.ceil(size / 1000)} kB</dd><dt>SHA-256</dt><dd><code>${sha256}</code></dd></dl>
`,
  )}${packages.length === 0 ? html`<p>This server has none, because its build is missing.</p>` : html``}`;
