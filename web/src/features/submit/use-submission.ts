import { ApiError, type Job, type System, type UploadSource } from '@bursar/client';
import { useMutation } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { bursar, isSignedOut, isTransient } from '../../client/bursar.ts';
import { attemptKey, forgetAttempt } from './attempt-key.ts';
import { describeSelection, type Selection } from './files/selection.ts';
import { findSizeError, toZipLimits } from './files/use-listing.ts';
import { type SubmitValues, toJobRequest } from './form/values.ts';

export interface SubmissionProgress {
  step: 'packing' | 'sending';
  doneBytes: number;
  totalBytes: number;
  /** 1 for the first one. After a cut connection the upload starts again. */
  attempt: number;
  /** Of this step and attempt, by `performance.now()`. */
  startedAt: number;
}

export interface SubmissionInput {
  values: SubmitValues;
  system: System;
  selection: Selection | null;
}

type Report = (progress: Omit<SubmissionProgress, 'startedAt'>) => void;

/** An upload that was cut off is sent again for several minutes. */
const retries = 12;
const reportIntervalMs = 100;

/** Packs and sends a job. `cancel` ends it, and keeps the form. */
export function useSubmission(onSubmitted: (job: Job) => void) {
  const abort = useRef<AbortController>(null);
  const [progress, setProgress] = useState<SubmissionProgress>();
  // Somebody who leaves the page has been asked whether to cancel it.
  useEffect(() => {
    return () => abort.current?.abort();
  }, []);
  const mutation = useMutation({
    mutationFn: async (input: SubmissionInput) => {
      const controller = new AbortController();
      abort.current = controller;
      return await submit(input, createReporter(setProgress), controller.signal);
    },
    onSuccess: onSubmitted,
    onSettled: () => setProgress(undefined),
  });
  const wasCancelled = abort.current?.signal.aborted ?? false;
  return {
    start: mutation.mutate,
    cancel: () => abort.current?.abort(new DOMException('The submission was cancelled.', 'AbortError')),
    isBusy: mutation.isPending,
    progress,
    error: mutation.error === null || wasCancelled ? null : mutation.error,
    reset: mutation.reset,
  };
}

async function submit({ values, system, selection }: SubmissionInput, report: Report, signal: AbortSignal) {
  const request = toJobRequest(values, system);
  const idempotencyKey = attemptKey([request, describeSelection(selection)]);
  const source = selection === null ? undefined : await toSource(selection, system, report, signal);
  try {
    const job = await bursar.submit({
      ...request,
      input: source,
      idempotencyKey,
      retries,
      signal,
      onProgress: ({ sentBytes, totalBytes = 0, attempt }) =>
        report({ step: 'sending', doneBytes: sentBytes, totalBytes, attempt }),
    });
    forgetAttempt();
    return job.data;
  } catch (error) {
    if (isRefusal(error)) forgetAttempt();
    throw error;
  }
}

/** Whether the server has refused the job. After any other error an earlier attempt may have been accepted. */
function isRefusal(error: unknown): boolean {
  if (!(error instanceof ApiError) || isTransient(error) || isSignedOut(error)) return false;
  return error.status < 500 && error.status !== 408 && error.code !== 'idempotency_key_in_use';
}

async function toSource(
  selection: Selection,
  { input_limits: limits }: System,
  report: Report,
  signal: AbortSignal,
): Promise<UploadSource> {
  if (selection.kind === 'zip') {
    const { zip, name } = selection;
    return { name, totalBytes: zip.size, open: () => zip };
  }
  const { packFolder, listZip } = await import('./files/zip-rules.ts');
  const totalBytes = selection.files.reduce((sum, { bytes }) => sum + bytes, 0);
  const onProgress = (doneBytes: number) => report({ step: 'packing', doneBytes, totalBytes, attempt: 1 });
  onProgress(0);
  const zip = await packFolder(selection.files, { onProgress, signal });
  // Some rules need the packed sizes, such as that for zip bombs.
  const problem = findSizeError(zip.size, limits) ?? (await listZip(zip, toZipLimits(limits))).problem;
  if (problem !== null) throw problem;
  return { name: `${selection.name}.zip`, totalBytes: zip.size, open: () => zip };
}

/** Passes progress on, at most ten times a second. */
function createReporter(show: (progress: SubmissionProgress) => void): Report {
  let startedAt = 0;
  let shownAt = Number.NEGATIVE_INFINITY;
  let phase = '';
  return (progress) => {
    const now = performance.now();
    const nextPhase = `${progress.step} ${progress.attempt}`;
    const isNew = nextPhase !== phase;
    if (isNew) startedAt = now;
    phase = nextPhase;
    const isComplete = progress.doneBytes >= progress.totalBytes;
    if (!isNew && !isComplete && now - shownAt < reportIntervalMs) return;
    shownAt = now;
    show({ ...progress, startedAt });
  };
}
