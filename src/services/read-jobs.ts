import { BursarError } from '../domain/errors.ts';
import { type JobFilter, type ListedJob, nextJobs, singleJobJson } from '../store/job-lists.ts';
import type { Db } from '../store/tables.ts';
import { jobsVersion } from '../store/versions.ts';
import { unknownJob } from './find-job.ts';
import { checkPlace, type Owner, type Place, projectNamed, type Systems, systemNamed } from './places.ts';
import type { JsonAnswer, Versioned } from './versioned.ts';

/** Which of the jobs in a place; without a limit, all that come after. */
export interface JobListQuery extends Omit<JobFilter, 'owner' | 'hpc' | 'project'> {
  /** The record number of the job that the last page ended with. */
  after?: number;
  limit?: number;
}

/** The most jobs that are sent as one text, and how many come in a piece of a longer list. */
const mostAtOnce = 1000;
const jobsInPiece = 200;

/** The jobs in a place. Costs the scheduler nothing. */
export async function listJobs(
  db: Db,
  systems: Systems,
  owner: Owner,
  place: Place,
  { after = 0, limit, ...query }: JobListQuery,
): Promise<Versioned> {
  await checkPlace(db, systems, place);
  checkStage(systems, place, query.stage);
  const filter = { ...(owner === undefined ? {} : { owner }), ...place, ...query };
  return { version: await jobsVersion(db, owner), read: () => readList(db, filter, after, limit) };
}

async function readList(db: Db, filter: JobFilter, after: number, limit: number | undefined): Promise<JsonAnswer> {
  const most = limit ?? mostAtOnce;
  // One more than asked for tells whether there are more.
  const jobs = await nextJobs(db, filter, after, most + 1);
  if (jobs.length <= most) return { json: `[${jsonOf(jobs)}]` };
  if (limit === undefined) return { pieces: allJobs(db, filter, jobs) };
  const page = jobs.slice(0, limit);
  return { json: `[${jsonOf(page)}]`, next: page.at(-1)?.id ?? 0 };
}

/** Reads on only when what it has read is taken, so that a slow reader of a long list costs no memory. */
async function* allJobs(db: Db, filter: JobFilter, first: ListedJob[]): AsyncGenerator<string> {
  yield `[${jsonOf(first)}`;
  for (let jobs = first; jobs.length > 0; ) {
    jobs = await nextJobs(db, filter, jobs.at(-1)?.id ?? 0, jobsInPiece);
    if (jobs.length > 0) yield `,${jsonOf(jobs)}`;
  }
  yield ']';
}

const jsonOf = (jobs: readonly ListedJob[]) => jobs.map((job) => job.json).join(',');

/** A stage that no job here can be in is more likely misspelt than meant. */
function checkStage(systems: Systems, { hpc }: Place, stage: string | undefined): void {
  if (stage === undefined) return;
  const there = hpc === undefined ? [...systems.values()] : [systemNamed(systems, hpc)];
  const known = new Set(there.flatMap((system) => Object.values(system.stages)));
  if (known.has(stage)) return;
  const message = `must be one of ${[...known].join(', ')}`;
  throw new BursarError('bad_request', `"stage" ${message}.`, { fields: [{ field: 'stage', message }] });
}

/** One job, as JSON. Somebody else's does not exist for its reader. */
export async function readJob(
  db: Db,
  systems: Systems,
  owner: Owner,
  place: Required<Place>,
  jobId: string,
): Promise<string> {
  await projectNamed(db, systems, place.hpc, place.project);
  const json = await singleJobJson(db, { ...(owner === undefined ? {} : { owner }), ...place }, jobId);
  if (json === undefined) throw unknownJob(place);
  return json;
}
