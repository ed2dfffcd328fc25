import { basename, resolve } from 'node:path';
import { ApiError, type Bursar, type System, saveFiles } from '#client';
import { formatCharge } from '../../../domain/format-amount.ts';
import { createSlots } from '../../../domain/slots.ts';
import type { Context } from '../context.ts';
import { usageError } from '../errors.ts';
import { latestEvent } from '../events/latest-event.ts';
import { exitCodes } from '../exit-codes.ts';
import { resolveAccount } from '../profiles/connect.ts';
import { confirm } from '../submit/ask.ts';
import { createLocalInputCheck } from '../submit/check-local-input.ts';
import { completeSettings, type TargetedSettings } from '../submit/choose-system.ts';
import { type JobOptions, readSettings } from '../submit/job-options.ts';
import { folderOf, type OpenedInput, openJobInput } from '../submit/open-input.ts';
import { combine, describeCombination, parseSweptParameter } from '../submit/parameters.ts';
import { applyParameters } from '../submit/placeholders.ts';
import { requireAccepted } from '../submit/quote-text.ts';
import { parseWholeNumber } from '../submit/settings.ts';
import { sourceOf, toolParameters, toSubmission, uploadRetries } from '../submit/submit.ts';
import { escapeText } from '../terminal/text.ts';
import { resultFolderName } from './result-folder.ts';
import { describeSweep, openSweepJournal, type SweepJournal } from './sweep-journal.ts';
import { hasEnded, hasFailed, hasSucceeded, loadRuns, type SweepRun } from './sweep-runs.ts';
import { createScheduler } from './sweep-scheduler.ts';
import { createSweepView, summarize, sweepColumns } from './sweep-view.ts';

const concurrentDownloads = 2;

export interface SweepOptions extends JobOptions {
  input: string;
  param?: readonly string[];
  maxRunning?: string;
  watch?: boolean;
  collect?: string;
  retryFailed?: boolean;
  dryRun?: boolean;
}

/**
 * Submits one job for each combination of parameters. Each has exactly one job, even if the command is killed at any point
 * and run again. Ends when all jobs are submitted; with --watch or --collect, when all have ended.
 */
export async function run(context: Context, options: SweepOptions): Promise<void> {
  const { signal } = context;
  const client = await context.client();
  const sweep = await planSweep(context, client, options);
  const { journal, planned, system } = sweep;
  const since = await latestEvent(context, client);
  const runs = await loadRuns(client, journal, planned, signal);
  if (options.retryFailed)
    for (const failed of runs.filter(needsRetry)) Object.assign(failed, { job: null, outcome: null });
  const missing = runs.filter(({ job }) => job === null);
  if (!(await announce(context, client, system, runs, missing)) || options.dryRun) return;

  const columns = sweepColumns(sweep.parameterNames, options.collect !== undefined);
  const view = createSweepView(context, runs, columns);
  context.detachMessage = 'The jobs that are submitted run on. Run the same command again: it goes on where it was.';
  const downloads = createSlots({ total: concurrentDownloads });
  const scheduler = createScheduler({
    client,
    journal,
    runs,
    maxRunning: parseMaxRunning(options.maxRunning),
    since,
    submit: async (settings, idempotencyKey) =>
      (
        await client.submit({
          ...toSubmission(settings),
          ...sourceOf(sweep.input),
          idempotencyKey,
          retries: uploadRetries,
          signal,
        })
      ).data,
    onChange: view.update,
    onEnd: async (ended) => {
      if (options.collect === undefined || !hasSucceeded(ended)) return;
      const folder = resolve(options.collect);
      await downloads.run(() => collectResults(context, client, journal, ended, folder));
      view.update();
    },
    signal,
  });
  try {
    await scheduler.submitAll();
    if (options.watch || options.collect !== undefined) {
      await scheduler.waitForEnds();
      context.exitCode = exitCodeOf(runs);
    }
    context.detachMessage = undefined;
  } finally {
    scheduler.stop();
    view.end();
    await printRuns(context, runs, columns);
  }
}

interface Sweep {
  input: Exclude<OpenedInput, { kind: 'none' }>;
  system: System;
  journal: SweepJournal;
  parameterNames: string[];
  planned: Pick<SweepRun, 'combination' | 'settings'>[];
}

/** Reads and checks everything, before the first job is submitted. */
async function planSweep(context: Context, client: Bursar, options: SweepOptions): Promise<Sweep> {
  const parameters = (options.param ?? []).map(parseSweptParameter);
  if (parameters.length === 0) throw usageError('A sweep needs parameters.', 'Add --param a=1,2,3, for example.');
  const combinations = combine(parameters);
  const input = await openJobInput(options.input);
  if (input.kind === 'none') throw usageError('A sweep needs a folder or a zip.');
  const given = await readSettings(input, options, {});
  const { settings, system } = await completeSettings(context, client, given);
  const check = createLocalInputCheck(input, system);
  const planned: Sweep['planned'] = [];
  for (const combination of combinations) {
    const values = { ...settings.params, ...combination };
    const filled: TargetedSettings = {
      ...settings,
      ...applyParameters(settings, values, toolParameters(settings, system)),
    };
    await check(filled);
    planned.push({ combination, settings: filled });
  }
  const parameterNames = parameters.map(({ name }) => name);
  const { url } = await resolveAccount(context.env, context.options);
  const name = input.kind === 'zip' ? basename(input.path) : '';
  const identity = `${name} ${describeSweep(url, settings, parameterNames)}`;
  return { input, system, planned, parameterNames, journal: openSweepJournal(folderOf(input), identity) };
}

/** Shows what will be submitted and what it costs. Returns whether to go on. */
async function announce(
  context: Context,
  client: Bursar,
  system: System,
  runs: readonly SweepRun[],
  missing: SweepRun[],
) {
  const [first] = missing;
  context.note(summarize(runs));
  if (first === undefined) return true;
  // The parameters change neither nodes, cores nor runtime: all jobs cost the same.
  const quote = await client.quote({ ...toSubmission(first.settings), signal: context.signal });
  requireAccepted(quote, system);
  const together = quote.cost * missing.length;
  const left = quote.time_left + quote.cost - together;
  const rest =
    left >= 0 ? `leaves ${formatCharge(left, system.charge)}` : 'more than is left: some must end before others';
  const jobs = missing.length === 1 ? '1 job costs' : `${missing.length} jobs cost`;
  context.note(`${jobs} at most ${formatCharge(together, system.charge)}, ${rest}`);
  return await confirm(context, missing.length === 1 ? 'Submit it?' : `Submit ${missing.length} jobs?`);
}

const needsRetry = (run: SweepRun) => hasEnded(run) && !hasSucceeded(run);

function parseMaxRunning(text: string | undefined): number {
  if (text === undefined) return Number.POSITIVE_INFINITY;
  try {
    return parseWholeNumber(text);
  } catch (error) {
    throw usageError(`--max-running ${(error as Error).message}.`);
  }
}

/** Downloads the files of a job into a folder with the name of its parameters. Goes on where an earlier run stopped. */
async function collectResults(
  context: Context,
  client: Bursar,
  journal: SweepJournal,
  ended: SweepRun,
  folder: string,
): Promise<void> {
  const target = resolve(folder, resultFolderName(ended.combination));
  if (ended.job === null || ended.collectedTo === target) return;
  try {
    await saveFiles(client.job(ended.job), target, { signal: context.signal });
  } catch (error) {
    // The results of the others are still wanted.
    if (!(error instanceof ApiError) || error.code !== 'files_deleted') throw error;
    return context.note(`${describeCombination(ended.combination)}: ${escapeText(error.detail)}`);
  }
  journal.addCollected(ended.combination, target);
  ended.collectedTo = target;
}

function exitCodeOf(runs: readonly SweepRun[]): number {
  if (runs.some(hasFailed)) return exitCodes.jobFailed.code;
  return runs.every(hasSucceeded) ? exitCodes.success.code : exitCodes.jobCancelled.code;
}

/** JSON has one object for each combination, with the job of the API. */
async function printRuns(context: Context, runs: readonly SweepRun[], columns: ReturnType<typeof sweepColumns>) {
  if (context.options.json) {
    const results = runs.map(({ combination, job, collectedTo }) => ({
      params: combination,
      job,
      collected_to: collectedTo,
    }));
    return await context.printJson(results);
  }
  // On a terminal the live table stays.
  if (context.canRedraw) return;
  await context.printTable(runs, columns, 'There are no combinations.');
  context.note(summarize(runs));
}
