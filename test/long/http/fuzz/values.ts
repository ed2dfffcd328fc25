import type { Random } from './random.ts';

/** Texts that programs have trouble with, for parameters, headers and fields. */
const hostileTexts = [
  '',
  ' ',
  '0',
  '-1',
  '1e309',
  '0x10',
  '9007199254740993',
  '99999999999999999999',
  '1.5',
  'NaN',
  'null',
  'undefined',
  'true',
  '[object Object]',
  '__proto__',
  'constructor',
  'toString',
  '..',
  '../../etc/passwd',
  '..\\..\\x',
  '.',
  '/',
  '//',
  '*',
  '%',
  '%s%n',
  "' or 1=1 --",
  '"; drop table jobs; --',
  '$(touch /tmp/x)',
  '`id`',
  '<script>alert(1)</script>',
  '\u0000',
  'a\u0000b',
  '\u001b[31m',
  '\u00e9',
  '\u202e',
  '\ufeff',
  '\ufffd',
  '\ud800',
  'é'.repeat(100),
  '😀'.repeat(50),
  'x'.repeat(300),
  'x'.repeat(5000),
  'HPC_ONE',
  'hpc_one',
  'proj_hpc_one_01',
  '2026-01-31T12:00:00Z',
  '2026-02-31',
  '0000-00-00',
  '+275760-09-13T00:00:00.001Z',
  'latest',
  'bytes=0-0',
  'W/"x"',
] as const;

export const hostileText = (random: Random): string => random.pick(hostileTexts);

/** Values of every JSON type, as JSON text: some of them cannot be written by `JSON.stringify`. */
const hostileJson = [
  'null',
  'true',
  'false',
  '0',
  '-1',
  '-0',
  '1.5',
  '1e400',
  '1e308',
  '9007199254740993',
  '1000000000001',
  '""',
  '"0"',
  '"\\u0000"',
  '"\\ud800"',
  '[]',
  '[null]',
  '[[[[[[]]]]]]',
  '{}',
  '{"a":1}',
  '{"__proto__":{"admin":true}}',
  '{"constructor":{"prototype":{}}}',
];

export function hostileJsonText(random: Random): string {
  return random.chance(0.5) ? random.pick(hostileJson) : JSON.stringify(hostileText(random));
}

type JsonObject = Record<string, unknown>;

/** Changes one thing in a JSON object: drops, replaces, adds or repeats a field. */
export function mutateJsonObject(random: Random, value: JsonObject, knownFields: readonly string[]): string {
  const names = Object.keys(value);
  const fields = new Map(names.map((name) => [name, JSON.stringify(value[name])]));
  const format = (extra = '') => {
    const texts = [...fields].map(([name, text]) => `${JSON.stringify(name)}:${text}`);
    return `{${texts.join(',')}${extra}}`;
  };
  const known = knownFields.length > 0 ? knownFields : names;
  switch (random.below(5)) {
    case 0:
      if (names.length > 0) fields.delete(random.pick(names));
      return format();
    case 1:
      if (known.length > 0) fields.set(random.pick(known), hostileJsonText(random));
      return format();
    case 2:
      fields.set(hostileText(random), hostileJsonText(random));
      return format();
    case 3:
      if (known.length === 0) return format();
      return format(`${fields.size > 0 ? ',' : ''}${JSON.stringify(random.pick(known))}:${hostileJsonText(random)}`);
    default:
      return mutateText(random, format());
  }
}

/** Damages a text: cuts it, doubles it, wraps it, or changes a character. */
export function mutateText(random: Random, text: string): string {
  const at = random.below(text.length + 1);
  switch (random.below(7)) {
    case 0:
      return text.slice(0, at);
    case 1:
      return text.slice(at);
    case 2:
      return text.slice(0, at) + hostileText(random) + text.slice(at);
    case 3:
      return `[${text}]`;
    case 4:
      return `${'['.repeat(2000)}${text}`;
    case 5:
      return text + text;
    default:
      return hostileJsonText(random);
  }
}

/** Flips, cuts or repeats bytes. */
export function mutateBytes(random: Random, bytes: Buffer): Buffer {
  const at = random.below(bytes.length + 1);
  switch (random.below(4)) {
    case 0:
      return bytes.subarray(0, at);
    case 1:
      return Buffer.concat([bytes, bytes.subarray(at)]);
    case 2:
      return Buffer.from(Array.from({ length: random.below(300) }, () => random.below(256)));
    default: {
      const changed = Buffer.from(bytes);
      if (at < changed.length) changed[at] = random.below(256);
      return changed;
    }
  }
}
