/** An entry of a zip that is being written, with the fields of its headers. */
export interface WrittenZipEntry {
  name: Buffer;
  /** Includes the file type (`S_IFREG`, `S_IFDIR`). */
  mode: number;
  time: Date;
  /** Position of the local header in the zip. */
  offset: number;
  /** Whether the content is compressed. */
  isDeflated: boolean;
  /** `size`, `packedSize` and `crc` are final once the content has been written. */
  size: number;
  packedSize: number;
  crc: number;
  /** Whether the size may exceed 32 bits. Must be known before the content is written. */
  isZip64: boolean;
}

const max32 = 0xffff_ffff;
const max16 = 0xffff;
const versions = { default: 20, zip64: 45, madeByUnix: 0x031e };
/** Bit 3: sizes and checksum follow the content. Bit 11: names are UTF-8. */
const flags = 0x0808;
const methods = { stored: 0, deflated: 8 };

/** Precedes the content. */
export function localHeader({ name, time, isDeflated, isZip64 }: WrittenZipEntry): Buffer {
  // The sizes in the zip64 field are 0. Its presence tells a reader that the data descriptor has 64-bit sizes.
  const extra = isZip64 ? Buffer.concat([zip64Field([0n, 0n]), timeField(time)]) : timeField(time);
  const header = Buffer.alloc(30);
  header.writeUInt32LE(0x04034b50, 0);
  header.writeUInt16LE(isZip64 ? versions.zip64 : versions.default, 4);
  header.writeUInt16LE(flags, 6);
  header.writeUInt16LE(isDeflated ? methods.deflated : methods.stored, 8);
  header.writeUInt32LE(dosTime(time), 10);
  if (isZip64) header.fill(0xff, 18, 26);
  header.writeUInt16LE(name.length, 26);
  header.writeUInt16LE(extra.length, 28);
  return Buffer.concat([header, name, extra]);
}

/** Follows the content. */
export function dataDescriptor({ crc, size, packedSize, isZip64 }: WrittenZipEntry): Buffer {
  const bytes = Buffer.alloc(isZip64 ? 24 : 16);
  bytes.writeUInt32LE(0x08074b50, 0);
  bytes.writeUInt32LE(crc, 4);
  for (const [index, value] of [packedSize, size].entries()) {
    if (isZip64) bytes.writeBigUInt64LE(BigInt(value), 8 + index * 8);
    else bytes.writeUInt32LE(value, 8 + index * 4);
  }
  return bytes;
}

/** The header of an entry in the central directory. */
export function centralHeader(entry: WrittenZipEntry): Buffer {
  const { name, mode, time, offset, size, packedSize, crc, isDeflated, isZip64 } = entry;
  const needsZip64 = isZip64 || offset >= max32;
  const zip64 = needsZip64 ? [zip64Field([BigInt(size), BigInt(packedSize), BigInt(offset)])] : [];
  const extra = Buffer.concat([...zip64, timeField(time)]);
  const header = Buffer.alloc(46);
  header.writeUInt32LE(0x02014b50, 0);
  header.writeUInt16LE(versions.madeByUnix, 4);
  header.writeUInt16LE(needsZip64 ? versions.zip64 : versions.default, 6);
  header.writeUInt16LE(flags, 8);
  header.writeUInt16LE(isDeflated ? methods.deflated : methods.stored, 10);
  header.writeUInt32LE(dosTime(time), 12);
  header.writeUInt32LE(crc, 16);
  header.writeUInt32LE(needsZip64 ? max32 : packedSize, 20);
  header.writeUInt32LE(needsZip64 ? max32 : size, 24);
  header.writeUInt16LE(name.length, 28);
  header.writeUInt16LE(extra.length, 30);
  header.writeUInt32LE((mode << 16) >>> 0, 38);
  header.writeUInt32LE(needsZip64 ? max32 : offset, 42);
  return Buffer.concat([header, name, extra]);
}

/** The end of the zip: number of entries, and length and position of the central directory. */
export function endRecords(count: number, length: number, offset: number): Buffer {
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(Math.min(count, max16), 8);
  end.writeUInt16LE(Math.min(count, max16), 10);
  end.writeUInt32LE(Math.min(length, max32), 12);
  end.writeUInt32LE(Math.min(offset, max32), 16);
  if (count < max16 && length < max32 && offset < max32) return end;
  const zip64 = Buffer.alloc(56);
  zip64.writeUInt32LE(0x06064b50, 0);
  zip64.writeBigUInt64LE(44n, 4);
  zip64.writeUInt16LE(versions.madeByUnix, 12);
  zip64.writeUInt16LE(versions.zip64, 14);
  for (const [index, value] of [count, count, length, offset].entries()) {
    zip64.writeBigUInt64LE(BigInt(value), 24 + index * 8);
  }
  const locator = Buffer.alloc(20);
  locator.writeUInt32LE(0x07064b50, 0);
  locator.writeBigUInt64LE(BigInt(offset + length), 8);
  locator.writeUInt32LE(1, 16);
  return Buffer.concat([zip64, locator, end]);
}

function zip64Field(values: readonly bigint[]): Buffer {
  const bytes = Buffer.alloc(4 + values.length * 8);
  bytes.writeUInt16LE(1, 0);
  bytes.writeUInt16LE(values.length * 8, 2);
  for (const [index, value] of values.entries()) bytes.writeBigUInt64LE(value, 4 + index * 8);
  return bytes;
}

/** The extended timestamp, in seconds and UTC. The MS-DOS time has a resolution of two seconds and no time zone. */
function timeField(time: Date): Buffer {
  const bytes = Buffer.from([0x55, 0x54, 5, 0, 1, 0, 0, 0, 0]);
  bytes.writeUInt32LE(Math.floor(time.getTime() / 1000), 5);
  return bytes;
}

function dosTime(time: Date): number {
  const date = ((time.getFullYear() - 1980) << 9) | ((time.getMonth() + 1) << 5) | time.getDate();
  const timeOfDay = (time.getHours() << 11) | (time.getMinutes() << 5) | (time.getSeconds() >> 1);
  return ((date << 16) | timeOfDay) >>> 0;
}
