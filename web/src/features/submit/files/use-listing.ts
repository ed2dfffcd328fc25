import type { System } from '@bursar/client';
import { useEffect, useState } from 'react';
import { BursarError } from '../../../../../src/domain/errors.ts';
import { formatBytes } from '../../../../../src/domain/format-amount.ts';
import type { InputListing } from '../../../../../src/files/zip/list-input.ts';
import type { ZipLimits } from '../../../../../src/files/zip/zip-entries.ts';
import { describeError } from '../../../ui/states.tsx';
import type { Selection } from './selection.ts';

export type ListingState =
  | { kind: 'none' }
  | { kind: 'reading' }
  | { kind: 'failed'; message: string }
  | { kind: 'ready'; listing: InputListing };

/** Lists the chosen files, by the rules and limits of the system. */
export function useListing(selection: Selection | null, limits: System['input_limits'] | undefined): ListingState {
  const [result, setResult] = useState<{ of: Selection; limits: unknown; state: ListingState }>();
  const limitsKey = JSON.stringify(limits);

  useEffect(() => {
    if (selection === null || limitsKey === undefined) return;
    let isCurrent = true;
    const show = (state: ListingState) => isCurrent && setResult({ of: selection, limits: limitsKey, state });
    listSelection(selection, JSON.parse(limitsKey)).then(
      (listing) => show({ kind: 'ready', listing }),
      (error: unknown) => show({ kind: 'failed', message: describeError(error).message }),
    );
    return () => {
      isCurrent = false;
    };
  }, [selection, limitsKey]);

  if (selection === null) return { kind: 'none' };
  return result?.of === selection && result.limits === limitsKey ? result.state : { kind: 'reading' };
}

async function listSelection(selection: Selection, limits: System['input_limits']): Promise<InputListing> {
  const { listFolder, listZip } = await import('./zip-rules.ts');
  if (selection.kind === 'folder') {
    const entries = selection.files.map(({ path, file, bytes }) => ({
      path,
      kind: file === null ? ('folder' as const) : ('file' as const),
      bytes,
    }));
    return listFolder(entries, toZipLimits(limits));
  }
  const listing = await listZip(selection.zip, toZipLimits(limits));
  const problem = findSizeError(selection.zip.size, limits);
  return problem === null ? listing : { ...listing, problem };
}

export const toZipLimits = ({ entries, unpacked_bytes, ratio }: System['input_limits']): ZipLimits => ({
  maxEntries: entries,
  maxUnpackedBytes: unpacked_bytes,
  maxRatio: ratio,
});

export function findSizeError(size: number, { bytes: maxBytes }: System['input_limits']): BursarError | null {
  if (size <= maxBytes) return null;
  return new BursarError('too_large', `The zip is larger than the limit of ${formatBytes(maxBytes)}. Send less data.`);
}
