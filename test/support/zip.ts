import { buffer } from 'node:stream/consumers';
import { ZipFile } from 'yazl';

/** Creates an ordinary zip from contents by path. */
export async function createZip(files: Record<string, string | Uint8Array>): Promise<Buffer<ArrayBuffer>> {
  const zip = new ZipFile();
  for (const [path, content] of Object.entries(files)) zip.addBuffer(Buffer.from(content), path);
  zip.end();
  return Buffer.from(await buffer(zip.outputStream));
}
