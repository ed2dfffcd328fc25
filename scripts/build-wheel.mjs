// Builds the Python package without pip and without a network: a wheel is a zip file with some metadata (PEP 427).
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { crc32, deflateRawSync } from 'node:zlib';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const packageFolder = join(root, 'clients/python');

/** Writes the wheel into the folder and returns its file name. The same sources give the same bytes. */
export function buildWheel(outFolder) {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const infoFolder = `bursar-${version}.dist-info`;
  const files = [
    ...readSources(version),
    { name: `${infoFolder}/METADATA`, content: Buffer.from(metadata(version)) },
    { name: `${infoFolder}/WHEEL`, content: Buffer.from(wheelFormat) },
    { name: `${infoFolder}/licenses/LICENSE`, content: readFileSync(join(root, 'LICENSE')) },
  ];
  files.push({ name: `${infoFolder}/RECORD`, content: Buffer.from(record(files, infoFolder)) });
  const fileName = `bursar-${version}-py3-none-any.whl`;
  mkdirSync(outFolder, { recursive: true });
  writeFileSync(join(outFolder, fileName), zip(files));
  return fileName;
}

function readSources(version) {
  const names = readdirSync(join(packageFolder, 'bursar')).filter((name) => /\.py$|^py\.typed$/.test(name));
  return names.sort().map((name) => {
    const content = readFileSync(join(packageFolder, 'bursar', name));
    // The wheel has the version of the server that offers it, whatever the sources say.
    const isVersion = name === '_version.py';
    const text = isVersion && content.toString().replace(/^version = ".*"$/m, `version = "${version}"`);
    return { name: `bursar/${name}`, content: isVersion ? Buffer.from(text) : content };
  });
}

const wheelFormat = 'Wheel-Version: 1.0\nGenerator: bursar\nRoot-Is-Purelib: true\nTag: py3-none-any\n';

/** The fields of pyproject.toml that pip and people read, in the format of METADATA. */
function metadata(version) {
  const project = readFileSync(join(packageFolder, 'pyproject.toml'), 'utf8');
  const field = (name) => new RegExp(`^${name} = "(.*)"$`, 'm').exec(project)?.[1];
  const list = (text) => [...(text ?? '').matchAll(/"([^"]+)"/g)].map(([, item]) => item);
  const dependencies = list(/^dependencies = \[(.*)\]$/m.exec(project)?.[1]);
  const optional = /\[project\.optional-dependencies\]\n((?:.+\n)*)/.exec(project)?.[1] ?? '';
  const extras = [...optional.matchAll(/^(\w+) = \[(.*)\]$/gm)].map(([, name, items]) => ({
    name,
    items: list(items),
  }));
  const lines = [
    'Metadata-Version: 2.1',
    `Name: ${field('name')}`,
    `Version: ${version}`,
    `Summary: ${field('description')}`,
    'License: Apache-2.0',
    `Requires-Python: ${field('requires-python')}`,
    ...dependencies.map((item) => `Requires-Dist: ${item}`),
    ...extras.flatMap(({ name, items }) => [
      `Provides-Extra: ${name}`,
      ...items.map((item) => `Requires-Dist: ${item}; extra == "${name}"`),
    ]),
    'Description-Content-Type: text/markdown',
  ];
  return `${lines.join('\n')}\n\n${readFileSync(join(packageFolder, 'README.md'), 'utf8')}`;
}

/** Every file with its hash and size. The list itself has neither. */
function record(files, infoFolder) {
  const lines = files.map(({ name, content }) => {
    const hash = createHash('sha256').update(content).digest('base64url');
    return `${name},sha256=${hash},${content.length}`;
  });
  return `${[...lines, `${infoFolder}/RECORD,,`].join('\n')}\n`;
}

/** A zip with fixed times and permissions. The zip writer of the server stores files as they come, without compression. */
function zip(files) {
  const parts = [];
  const directory = [];
  let offset = 0;
  for (const { name, content } of files) {
    const packed = deflateRawSync(content, { level: 9 });
    const nameBytes = Buffer.from(name);
    // From the version that is needed (2.0) to the length of the extra field (0), local and central headers are the same.
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(8, 4);
    common.writeUInt16LE(0x21, 8); // 1 January 1980
    common.writeUInt32LE(crc32(content), 10);
    common.writeUInt32LE(packed.length, 14);
    common.writeUInt32LE(content.length, 18);
    common.writeUInt16LE(nameBytes.length, 22);
    const local = Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), common, nameBytes, packed]);
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE((0o100644 << 16) >>> 0, 6);
    rest.writeUInt32LE(offset, 10);
    const madeByUnix = Buffer.from([20, 3]);
    directory.push(Buffer.concat([Buffer.from('PK\x01\x02', 'latin1'), madeByUnix, common, rest, nameBytes]));
    parts.push(local);
    offset += local.length;
  }
  const directoryBytes = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 'latin1');
  end.writeUInt16LE(files.length, 8);
  end.writeUInt16LE(files.length, 10);
  end.writeUInt32LE(directoryBytes.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, directoryBytes, end]);
}
