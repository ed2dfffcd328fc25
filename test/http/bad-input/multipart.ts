import type { HeaderLine } from '../../support/raw-http.ts';

export const boundary = 'x-boundary-x';
export const formType: HeaderLine = ['content-type', `multipart/form-data; boundary=${boundary}`];
export type Part = [field: string, fileName: string | null, content: string | Uint8Array];

export function formatForm(...parts: Part[]): Buffer {
  return Buffer.concat([...parts.map(formatPart), Buffer.from(`--${boundary}--\r\n`)]);
}

export function formatPart([field, fileName, content]: Part): Buffer {
  const name = fileName === null ? '' : `; filename="${fileName}"`;
  const head = `--${boundary}\r\ncontent-disposition: form-data; name="${field}"${name}\r\n`;
  const type = fileName === null ? '' : 'content-type: application/zip\r\n';
  return Buffer.concat([Buffer.from(`${head}${type}\r\n`), Buffer.from(content), Buffer.from('\r\n')]);
}
