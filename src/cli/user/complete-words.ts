import { createHash } from 'node:crypto';
import { mkdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import type { Bursar } from '#client';
import type { Context } from './context.ts';
import { resolveAccount } from './profiles/connect.ts';
import { cacheFolder } from './profiles/paths.ts';
import { replaceFile } from './profiles/store.ts';
import { escapeText } from './terminal/text.ts';

type Source = 'jobs' | 'systems' | 'projects' | 'tools' | 'profiles';

/** Somebody waits for the key: a slow server gives no candidates. */
const timeoutMs = 2000;
const cacheMs = 5000;
/** More than anybody reads. */
const maxJobs = 100;

/** Prints the candidates for the last word, one a line. Prints nothing if anything fails. */
export async function run(
  context: Context,
  { words = [], program }: { words?: string[]; program: Command },
): Promise<void> {
  // Bash makes three words of --option=value.
  const [earlier, current] = [
    words.slice(0, -1).filter((word) => word !== '='),
    (words.at(-1) ?? '').replace(/^=$/, ''),
  ];
  const candidates = await findCandidates(context, program, earlier, current).catch(() => []);
  const matching = candidates.filter((candidate) => candidate.toLowerCase().startsWith(current.toLowerCase()));
  await context.print(matching.map((candidate) => `${escapeText(candidate)}\n`).join(''));
}

async function findCandidates(
  context: Context,
  program: Command,
  earlier: string[],
  current: string,
): Promise<string[]> {
  let command = program;
  let argumentCount = 0;
  let pending: string | undefined;
  for (const word of earlier) {
    if (pending !== undefined) pending = undefined;
    else if (word.startsWith('-')) {
      const option = findOption(command, program, word);
      pending = option?.required && !word.includes('=') ? option.attributeName() : undefined;
    } else {
      const child = command.commands.find((candidate) => candidate.name() === word);
      if (child === undefined) argumentCount++;
      else command = child;
    }
  }
  if (pending !== undefined) return await valuesOf(context, sourceOfOption[pending], current);
  if (current.startsWith('-'))
    return [...new Set([...command.options, ...program.options])].flatMap(({ long, hidden }) =>
      long && !hidden ? [long] : [],
    );
  const names = command.commands.map((child) => child.name()).filter((name) => name !== 'complete-words');
  const argument = command.registeredArguments[argumentCount]?.name();
  return [
    ...names,
    ...(await valuesOf(context, argument === undefined ? undefined : sourceOfArgument(argument, command), current)),
  ];
}

const findOption = (command: Command, program: Command, word: string) =>
  [...command.options, ...program.options].find(({ long, short }) => word.split('=')[0] === long || word === short);

const sourceOfOption: Record<string, Source | undefined> = {
  system: 'systems',
  project: 'projects',
  tool: 'tools',
  profile: 'profiles',
  job: 'jobs',
};

function sourceOfArgument(name: string, command: Command): Source | undefined {
  if (name === 'job') return 'jobs';
  if (name === 'project') return 'projects';
  if (name !== 'name') return undefined;
  return command.name() === 'use' ? 'profiles' : command.name() === 'create' ? undefined : 'systems';
}

async function valuesOf(context: Context, source: Source | undefined, current: string): Promise<string[]> {
  if (source === undefined) return [];
  if (source === 'profiles') {
    const { readProfiles } = await import('./profiles/store.ts');
    return Object.keys((await readProfiles(context.env)).profiles);
  }
  const signal = AbortSignal.timeout(timeoutMs);
  if (source === 'jobs')
    return await cached(context, `jobs ${current}`, async () => readJobIds(await context.client(), current, signal));
  return await cached(context, source, async () => readValues(await context.client(), source, signal));
}

/** The newest jobs whose ids begin with the current word. */
async function readJobIds({ api }: Bursar, current: string, signal: AbortSignal): Promise<string[]> {
  if (current.startsWith('@')) return ['@last'];
  const query = { limit: maxJobs, ...(current === '' ? {} : { job_id: current }) };
  const { jobs } = await api.listJobSummaries({ query, signal });
  return ['@last', ...jobs.map(({ job }) => job.job_id)];
}

async function readValues(
  { api }: Bursar,
  source: 'systems' | 'projects' | 'tools',
  signal: AbortSignal,
): Promise<string[]> {
  if (source === 'projects')
    return (await api.getMe({ signal })).projects.flatMap(({ project_hpc: hpc, project_name: name }) => [
      name,
      `${hpc.toLowerCase()}/${name}`,
    ]);
  const systems = await api.listSystems({ signal });
  return source === 'systems'
    ? systems.map(({ hpc }) => hpc)
    : systems.flatMap(({ tools }) => tools.map(({ name }) => name));
}

/** Candidates are kept for a few seconds, for each server and token, because the key is often pressed twice. */
async function cached(context: Context, key: string, read: () => Promise<string[]>): Promise<string[]> {
  const { url, token = '' } = await resolveAccount(context.env, context.options);
  const name = createHash('sha256').update(`${url} ${token} ${key}`).digest('hex').slice(0, 32);
  const path = join(cacheFolder(context.env), `completion-${name}.json`);
  const { mtimeMs = 0 } = (await stat(path).catch(() => undefined)) ?? {};
  if (context.now() - mtimeMs < cacheMs) return JSON.parse(await readFile(path, 'utf8')) as string[];
  const values = await read();
  await mkdir(cacheFolder(context.env), { recursive: true, mode: 0o700 });
  await replaceFile(path, JSON.stringify(values));
  return values;
}
