/** Eight tables, so that eight bytes are added in one step. */
const tables = createTables();

function createTables(): Uint32Array[] {
  const first = new Uint32Array(256).map((_, byte) => {
    let value = byte;
    for (let bit = 0; bit < 8; bit++) value = (value & 1) === 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
    return value;
  });
  const all = [first];
  for (let index = 1; index < 8; index++) {
    const previous = all[index - 1] ?? first;
    all.push(new Uint32Array(256).map((_, byte) => at(first, at(previous, byte) & 0xff) ^ (at(previous, byte) >>> 8)));
  }
  return all;
}

function at(table: Uint32Array, index: number): number {
  return table[index] as number;
}

/** Adds bytes to the checksum of a zip entry. Browsers have no function for it. */
export function crc32(bytes: Uint8Array, previous: number): number {
  const [t0, t1, t2, t3, t4, t5, t6, t7] = tables as [
    Uint32Array,
    Uint32Array,
    Uint32Array,
    Uint32Array,
    Uint32Array,
    Uint32Array,
    Uint32Array,
    Uint32Array,
  ];
  let crc = ~previous;
  let index = 0;
  const byteAt = (offset: number) => bytes[index + offset] as number;
  for (; index + 8 <= bytes.length; index += 8) {
    crc ^= byteAt(0) | (byteAt(1) << 8) | (byteAt(2) << 16) | (byteAt(3) << 24);
    crc =
      at(t7, crc & 0xff) ^
      at(t6, (crc >>> 8) & 0xff) ^
      at(t5, (crc >>> 16) & 0xff) ^
      at(t4, crc >>> 24) ^
      at(t3, byteAt(4)) ^
      at(t2, byteAt(5)) ^
      at(t1, byteAt(6)) ^
      at(t0, byteAt(7));
  }
  for (; index < bytes.length; index++) crc = at(t0, (crc ^ byteAt(0)) & 0xff) ^ (crc >>> 8);
  return ~crc >>> 0;
}
