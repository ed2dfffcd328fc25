import { BursarError } from '../domain/errors.ts';
import { jobListJson, singleJobJson } from '../store/jobs.ts';
import type { Db } from '../store/tables.ts';
import type { Actor } from './actor.ts';
import { checkPlace, type Place, projectNamed, type Systems } from './places.ts';

/** The caller's own jobs, as the JSON array that is sent. Costs the scheduler nothing. */
export async function listJobs(db: Db, systems: Systems, actor: Actor, place: Place): Promise<string> {
  await checkPlace(db, systems, place);
  return await jobListJson(db, { owner: actor.userId, ...place });
}

/** One of the caller's own jobs, as JSON. Somebody else's does not exist for the caller. */
export async function readJob(
  db: Db,
  systems: Systems,
  actor: Actor,
  place: Required<Place>,
  jobId: string,
): Promise<string> {
  await projectNamed(db, systems, place.hpc, place.project);
  const json = await singleJobJson(db, { owner: actor.userId, ...place }, jobId);
  if (json === undefined) {
    throw new BursarError('job_unknown', `You have no job of that identifier in ${place.project} on ${place.hpc}.`);
  }
  return json;
}
