/** The part of Node's Buffer that the readers and writers of zips use: little-endian numbers and UTF-8. */
export class Buffer extends Uint8Array {
  static alloc(length: number): Buffer {
    return new Buffer(length);
  }

  static allocUnsafe(length: number): Buffer {
    return new Buffer(length);
  }

  /** Takes text, the bytes of an ArrayBuffer, or a list of bytes. */
  static override from(value: unknown): Buffer {
    if (value instanceof ArrayBuffer) return new Buffer(value);
    const bytes = typeof value === 'string' ? new TextEncoder().encode(value) : (value as ArrayLike<number>);
    const copy = new Buffer(bytes.length);
    copy.set(bytes);
    return copy;
  }

  static concat(parts: readonly Uint8Array[]): Buffer {
    const joined = new Buffer(parts.reduce((sum, { length }) => sum + length, 0));
    let offset = 0;
    for (const part of parts) {
      joined.set(part, offset);
      offset += part.length;
    }
    return joined;
  }

  static byteLength(text: string): number {
    return new TextEncoder().encode(text).length;
  }

  get #view(): DataView {
    return new DataView(this.buffer, this.byteOffset, this.byteLength);
  }

  copy(target: Uint8Array, targetStart = 0, start = 0, end = this.length): number {
    const part = this.subarray(start, end);
    target.set(part, targetStart);
    return part.length;
  }

  override toString(): string {
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(this);
  }

  readUInt16LE(offset: number): number {
    return this.#view.getUint16(offset, true);
  }

  readUInt32LE(offset: number): number {
    return this.#view.getUint32(offset, true);
  }

  writeUInt16LE(value: number, offset: number): void {
    this.#view.setUint16(offset, value, true);
  }

  writeUInt32LE(value: number, offset: number): void {
    this.#view.setUint32(offset, value, true);
  }

  writeBigUInt64LE(value: bigint, offset: number): void {
    this.#view.setBigUint64(offset, value, true);
  }
}
