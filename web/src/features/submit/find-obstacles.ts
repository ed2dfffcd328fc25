import type { Quote, System } from '@bursar/client';
import type { UseQueryResult } from '@tanstack/react-query';
import { formatBytes } from '../../../../src/domain/format-amount.ts';
import type { FieldErrors } from '../../shared/field-errors.ts';
import { describeError } from '../../ui/states.tsx';
import type { ListingState } from './files/use-listing.ts';

interface SubmissionState {
  system: System;
  project: string;
  errors: FieldErrors;
  listing: ListingState;
  startFileError: string | null;
  quote: UseQueryResult<Quote>;
  /** In KB. */
  spaceLeft: number | undefined;
}

const labels: Record<string, string> = {
  command: 'The command',
  tool: 'The tool',
  node_number: 'The number of nodes',
  core_number: 'The number of cores per node',
  runtime: 'The runtime',
  title: 'The title',
  tags: 'The tags',
};

/** The reasons why the job cannot be submitted as it is. Empty if it can. */
export function findObstacles(state: SubmissionState): string[] {
  const { system, project, errors, listing, startFileError, quote, spaceLeft } = state;
  const obstacles: string[] = [];
  if (system.paused_at !== null) obstacles.push(`${system.hpc} is paused: ${system.pause_reason ?? ''}`);
  if (project === '') obstacles.push(`You are not in a project of ${system.hpc}.`);
  for (const [field, message] of Object.entries(errors)) obstacles.push(`${labels[field] ?? field} ${message}.`);
  if (listing.kind === 'reading') obstacles.push('The files are being read.');
  if (listing.kind === 'failed') obstacles.push(listing.message);
  if (listing.kind === 'ready') {
    const { problem, unpackedBytes } = listing.listing;
    if (problem !== null) obstacles.push(problem.message);
    else if (spaceLeft !== undefined && unpackedBytes > spaceLeft * 1000) {
      obstacles.push(
        `The files need ${formatBytes(unpackedBytes)} of space, and ${formatBytes(Math.max(0, spaceLeft * 1000))} is left.`,
      );
    }
  }
  if (startFileError !== null) obstacles.push(startFileError);
  if (Object.keys(errors).length > 0) return obstacles;
  if (quote.isError) obstacles.push(describeError(quote.error).message);
  else if (quote.data !== undefined && !quote.data.accepted) obstacles.push(quote.data.reason ?? '');
  return obstacles;
}
