import { BursarError } from '../../domain/errors.ts';
import type { Db } from '../../store/database/handle.ts';
import { findJobJson, type JobFilter, type JobPage, readJobPage } from '../../store/jobs/job-lists.ts';
import {
  type Owner,
  type PathScope,
  requireProject,
  requireScope,
  requireScopeSystem,
  requireSystem,
  type Systems,
} from '../scope.ts';
import type { VersionedJson } from '../versioned.ts';
import { jobNotFound } from './find-job.ts';
import type { JobListCache } from './job-list-cache.ts';

/** Which of the jobs in a place; without a limit, all that come after. */
export interface JobListQuery extends Omit<JobFilter, 'owner' | 'hpc' | 'project'> {
  /** The record number of the job that the last page ended with. */
  after?: number;
  limit?: number;
}

/** The most jobs that are sent as one text, and how many come in a piece of a longer list. */
const mostAtOnce = 1000;
const jobsInPiece = 200;

/** The jobs in a place, unless they are of the version that is known. Costs the scheduler nothing. */
export async function listJobs(
  { db, systems, keptLists }: { db: Db; systems: Systems; keptLists: JobListCache },
  owner: Owner,
  place: PathScope,
  { after = 0, limit, ...query }: JobListQuery,
  knownVersion: string | undefined,
): Promise<VersionedJson> {
  requireScopeSystem(systems, place);
  checkStage(systems, place, query.stage);
  const filter = { ...(owner === undefined ? {} : { owner }), ...place, ...query };
  const most = limit ?? mostAtOnce;
  // By what else they can be filtered changes: a job may leave such a list.
  const canBeKept = owner !== undefined && Object.keys(query).length === 0;
  const page = canBeKept
    ? await keptLists.next(db, { owner, ...place }, after, most, knownVersion)
    : await readJobPage(db, filter, after, most, knownVersion);
  const { version, ids, publicJson: texts, hasMore: more } = page;
  if (version === knownVersion) return { version, answer: null };
  // Where there are jobs, there is a project.
  if (ids.length === 0) await requireScope(db, systems, place);
  if (more && limit === undefined) return { version, answer: { pieces: allJobs(db, filter, page) } };
  const json = `[${texts.join(',')}]`;
  return { version, answer: more ? { json, next: lastOf(page) } : { json } };
}

/** Reads on only when what it has read is taken, so that a slow reader of a long list costs no memory. */
async function* allJobs(db: Db, filter: JobFilter, first: JobPage): AsyncGenerator<string> {
  yield `[${first.publicJson.join(',')}`;
  for (let page = first; page.hasMore; ) {
    page = await readJobPage(db, filter, lastOf(page), jobsInPiece);
    if (page.publicJson.length > 0) yield `,${page.publicJson.join(',')}`;
  }
  yield ']';
}

const lastOf = ({ ids }: JobPage) => ids.at(-1) ?? 0;

/** A stage that no job here can be in is more likely misspelt than meant. */
function checkStage(systems: Systems, { hpc }: PathScope, stage: string | undefined): void {
  if (stage === undefined) return;
  const there = hpc === undefined ? [...systems.values()] : [requireSystem(systems, hpc)];
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
  place: Required<PathScope>,
  jobId: string,
): Promise<string> {
  requireSystem(systems, place.hpc);
  const json = await findJobJson(db, { ...(owner === undefined ? {} : { owner }), ...place }, jobId);
  if (json !== undefined) return json;
  // Whether there is such a project matters only for what to say.
  await requireProject(db, systems, place.hpc, place.project);
  throw jobNotFound(place);
}
