/** An entry, as the headers of a zip tell of it. */
export interface WrittenZipEntry {
  name: Buffer;
  /** With the kind of file (`S_IFREG`, `S_IFDIR`). */
  mode: number;
  time: Date;
  /** Where its header stands in the zip. */
  offset: number;
  /** Known once its content has been read. */
  size: number;
  crc: number;
  /** Whether it may have more bytes than the small fields can say; to be known beforehand. */
  isZip64: boolean;
}

const most32 = 0xffff_ffff;
const most16 = 0xffff;
const versions = { plain: 20, large: 45, madeByUnix: 0x031e };
/** Sizes and sum stand behind the content; names are UTF-8. */
const flags = 0x0808;

/** Before the content. */
export function localHeader({ name, time, isZip64 }: WrittenZipEntry): Buffer {
  // With empty large fields: by them a reader knows how wide the ones behind the content are.
  const extra = isZip64 ? Buffer.concat([field(1, [0n, 0n]), timeField(time)]) : timeField(time);
  const head = Buffer.alloc(30);
  head.writeUInt32LE(0x04034b50, 0);
  head.writeUInt16LE(isZip64 ? versions.large : versions.plain, 4);
  head.writeUInt16LE(flags, 6);
  head.writeUInt32LE(dosTime(time), 10);
  if (isZip64) head.fill(0xff, 18, 26);
  head.writeUInt16LE(name.length, 26);
  head.writeUInt16LE(extra.length, 28);
  return Buffer.concat([head, name, extra]);
}

/** Behind the content. */
export function dataDescriptor({ crc, size, isZip64 }: WrittenZipEntry): Buffer {
  const bytes = Buffer.alloc(isZip64 ? 24 : 16);
  bytes.writeUInt32LE(0x08074b50, 0);
  bytes.writeUInt32LE(crc, 4);
  for (const index of [0, 1]) {
    if (isZip64) bytes.writeBigUInt64LE(BigInt(size), 8 + index * 8);
    else bytes.writeUInt32LE(size, 8 + index * 4);
  }
  return bytes;
}

/** In the directory at the end. */
export function centralHeader({ name, mode, time, offset, size, crc, isZip64 }: WrittenZipEntry): Buffer {
  const isFar = isZip64 || offset >= most32;
  const large = isFar ? [field(1, [BigInt(size), BigInt(size), BigInt(offset)])] : [];
  const extra = Buffer.concat([...large, timeField(time)]);
  const head = Buffer.alloc(46);
  head.writeUInt32LE(0x02014b50, 0);
  head.writeUInt16LE(versions.madeByUnix, 4);
  head.writeUInt16LE(isFar ? versions.large : versions.plain, 6);
  head.writeUInt16LE(flags, 8);
  head.writeUInt32LE(dosTime(time), 12);
  head.writeUInt32LE(crc, 16);
  head.writeUInt32LE(isFar ? most32 : size, 20);
  head.writeUInt32LE(isFar ? most32 : size, 24);
  head.writeUInt16LE(name.length, 28);
  head.writeUInt16LE(extra.length, 30);
  head.writeUInt32LE((mode << 16) >>> 0, 38);
  head.writeUInt32LE(isFar ? most32 : offset, 42);
  return Buffer.concat([head, name, extra]);
}

/** The very end: how many entries there are, how long the directory is, and where it begins. */
export function endRecords(count: number, length: number, offset: number): Buffer {
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(Math.min(count, most16), 8);
  end.writeUInt16LE(Math.min(count, most16), 10);
  end.writeUInt32LE(Math.min(length, most32), 12);
  end.writeUInt32LE(Math.min(offset, most32), 16);
  if (count < most16 && length < most32 && offset < most32) return end;
  const large = Buffer.alloc(56);
  large.writeUInt32LE(0x06064b50, 0);
  large.writeBigUInt64LE(44n, 4);
  large.writeUInt16LE(versions.madeByUnix, 12);
  large.writeUInt16LE(versions.large, 14);
  for (const [index, value] of [count, count, length, offset].entries()) {
    large.writeBigUInt64LE(BigInt(value), 24 + index * 8);
  }
  const locator = Buffer.alloc(20);
  locator.writeUInt32LE(0x07064b50, 0);
  locator.writeBigUInt64LE(BigInt(offset + length), 8);
  locator.writeUInt32LE(1, 16);
  return Buffer.concat([large, locator, end]);
}

function field(id: number, values: readonly bigint[]): Buffer {
  const bytes = Buffer.alloc(4 + values.length * 8);
  bytes.writeUInt16LE(id, 0);
  bytes.writeUInt16LE(values.length * 8, 2);
  for (const [index, value] of values.entries()) bytes.writeBigUInt64LE(value, 4 + index * 8);
  return bytes;
}

/** The time by seconds in UTC: the zip's own knows neither odd seconds nor where it is. */
function timeField(time: Date): Buffer {
  const bytes = Buffer.from([0x55, 0x54, 5, 0, 1, 0, 0, 0, 0]);
  bytes.writeUInt32LE(Math.floor(time.getTime() / 1000), 5);
  return bytes;
}

function dosTime(time: Date): number {
  const day = ((time.getFullYear() - 1980) << 9) | ((time.getMonth() + 1) << 5) | time.getDate();
  const seconds = (time.getHours() << 11) | (time.getMinutes() << 5) | (time.getSeconds() >> 1);
  return ((day << 16) | seconds) >>> 0;
}
