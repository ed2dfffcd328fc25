import type { JobFile } from '@bursar/client';
import { queryOptions } from '@tanstack/react-query';
import { keys } from '../../../../client/queries.ts';
import type { JobSource } from '../job-source.ts';
import { type CsvTable, parseCsv } from './parse-csv.ts';

export const maxTextBytes = 256_000;
export const maxCsvRows = 200;
const maxImageBytes = 20_000_000;

/** Shown by an `img` element only, in which no script of an SVG runs. */
const imageTypes: Record<string, string> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  svg: 'image/svg+xml',
};

export type Preview =
  | { kind: 'text'; text: string; isCut: boolean }
  | { kind: 'csv'; table: CsvTable }
  | { kind: 'image'; blob: Blob }
  | { kind: 'none'; why: string };

/** The preview of a file. Its content is never trusted: it becomes text, or the pixels of an image. */
export const previewQuery = (source: JobSource, file: JobFile) =>
  queryOptions({
    queryKey: [...keys.job(source.path.job_id), 'preview', source.isAdmin, file],
    queryFn: ({ signal }) => readPreview(source, file, signal),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
  });

async function readPreview(source: JobSource, file: JobFile, signal: AbortSignal): Promise<Preview> {
  const extension = /\.(\w+)$/.exec(file.path)?.[1]?.toLowerCase() ?? '';
  const imageType = imageTypes[extension];
  if (file.size === 0) return { kind: 'none', why: 'The file is empty.' };
  if (imageType !== undefined) {
    if (file.size > maxImageBytes) return { kind: 'none', why: 'The image is too large for a preview.' };
    const response = await source.openFile(file.path, maxImageBytes, signal);
    return { kind: 'image', blob: new Blob([await response.arrayBuffer()], { type: imageType }) };
  }
  const response = await source.openFile(file.path, maxTextBytes, signal);
  const bytes = new Uint8Array(await response.arrayBuffer()).subarray(0, maxTextBytes);
  // Text has no zero bytes.
  if (bytes.includes(0)) return { kind: 'none', why: 'The file is not text.' };
  const isCut = file.size > bytes.length;
  // A character that is cut at the end is left out.
  const text = new TextDecoder().decode(bytes, { stream: isCut });
  if (extension === 'csv' || extension === 'tsv') return { kind: 'csv', table: parseCsv(text, maxCsvRows) };
  return { kind: 'text', text, isCut };
}
