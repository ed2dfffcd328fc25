import { crc32, deflateRawSync } from 'node:zlib';

/** The fields of a zip entry, which may be wrong. Omitted fields get their correct values. */
export interface RawEntry {
  name: string | Buffer;
  content?: string | Buffer;
  /** The packed bytes, if they differ from the deflated or stored content. */
  packed?: Buffer;
  method?: number;
  flags?: number;
  mode?: number;
  extra?: Buffer;
  crc?: number;
  unpackedBytes?: number | bigint;
  packedBytes?: number | bigint;
  /** The offset of the local header, as the central directory declares it. */
  offset?: number | bigint;
  /** Writes only the entry in the central directory, without a local header and content. */
  hasNoData?: boolean;
}

export interface RawEnd {
  entryCount?: number;
  /** Values for a zip64 end record. Omitted ones get their correct values. */
  zip64?: { entryCount?: bigint; directoryOffset?: bigint; recordOffset?: bigint };
}

const utf8Flag = 0x800;
const sentinel32 = 0xffffffff;

/** Writes a zip with any fields, valid or not. */
export function rawZip(entries: RawEntry[], end: RawEnd = {}): Buffer<ArrayBuffer> {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const entry of entries) {
    const { local, central } = rawEntry(entry, offset);
    directory.push(central);
    if (entry.hasNoData) continue;
    parts.push(local);
    offset += local.length;
  }
  const directoryBytes = Buffer.concat(directory);
  return Buffer.concat([...parts, directoryBytes, rawEnd(end, entries.length, offset, directoryBytes.length)]);
}

function rawEntry(entry: RawEntry, offset: number) {
  const name = Buffer.from(entry.name);
  const content = Buffer.from(entry.content ?? '');
  const method = entry.method ?? 8;
  const packed = entry.packed ?? (method === 0 ? content : deflateRawSync(content));
  const flags = entry.flags ?? (typeof entry.name === 'string' ? utf8Flag : 0);
  const crc = entry.crc ?? crc32(content);
  const sizes = zip64Fields([
    entry.unpackedBytes ?? content.length,
    entry.packedBytes ?? packed.length,
    entry.offset ?? offset,
  ]);
  const extra = Buffer.concat([sizes.extra, entry.extra ?? Buffer.alloc(0)]);
  const shared = Buffer.concat([u16(45), u16(flags), u16(method), u32(0), u32(crc)]);
  const local = Buffer.concat([
    u32(0x04034b50),
    shared,
    u32(packed.length),
    u32(content.length),
    u16(name.length),
    u16(0),
    name,
    packed,
  ]);
  const central = Buffer.concat([
    u32(0x02014b50),
    u16((3 << 8) | 45),
    shared,
    u32(sizes.values[1]),
    u32(sizes.values[0]),
    u16(name.length),
    u16(extra.length),
    u16(0),
    u32(0),
    u32(((entry.mode ?? 0o100644) << 16) >>> 0),
    u32(sizes.values[2]),
    name,
    extra,
  ]);
  return { local, central };
}

/** Values that do not fit into 32 bits go into the zip64 field, in this order, and are replaced by a sentinel. */
function zip64Fields(values: (number | bigint)[]) {
  const large = values.filter((value) => BigInt(value) >= BigInt(sentinel32));
  const data = Buffer.concat(large.map(u64));
  return {
    values: values.map((value) => (BigInt(value) >= BigInt(sentinel32) ? sentinel32 : Number(value))),
    extra: large.length === 0 ? data : Buffer.concat([u16(1), u16(data.length), data]),
  };
}

function rawEnd({ entryCount, zip64 }: RawEnd, entries: number, offset: number, directoryLength: number): Buffer {
  const count = entryCount ?? entries;
  if (zip64 === undefined) {
    return endRecord(count, directoryLength, offset);
  }
  const declaredCount = zip64.entryCount ?? BigInt(count);
  const record = Buffer.concat([
    u32(0x06064b50),
    u64(44),
    u16(45),
    u16(45),
    u32(0),
    u32(0),
    u64(declaredCount),
    u64(declaredCount),
    u64(directoryLength),
    u64(zip64.directoryOffset ?? offset),
  ]);
  const locator = [u32(0x07064b50), u32(0), u64(zip64.recordOffset ?? offset + directoryLength), u32(1)];
  return Buffer.concat([record, ...locator, endRecord(0xffff, sentinel32, sentinel32)]);
}

function endRecord(count: number, directoryLength: number, offset: number): Buffer {
  return Buffer.concat([
    u32(0x06054b50),
    u16(0),
    u16(0),
    u16(count),
    u16(count),
    u32(directoryLength),
    u32(offset),
    u16(0),
  ]);
}

function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

function u32(value = 0): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function u64(value: number | bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

/** The Info-ZIP Unicode path field: another name for an entry, which readers prefer. */
export function unicodePathField(rawName: string, unicodeName: string): Buffer {
  const data = Buffer.concat([Buffer.from([1]), u32(crc32(rawName)), Buffer.from(unicodeName)]);
  return Buffer.concat([u16(0x7075), u16(data.length), data]);
}
