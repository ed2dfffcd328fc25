import { jobListJson, singleJobJson } from '../store/jobs.ts';
import type { Db } from '../store/tables.ts';
import { unknownJob } from './find-job.ts';
import { checkPlace, type Owner, type Place, projectNamed, type Systems } from './places.ts';

/** The jobs in a place, as the JSON array that is sent. Costs the scheduler nothing. */
export async function listJobs(db: Db, systems: Systems, owner: Owner, place: Place): Promise<string> {
  await checkPlace(db, systems, place);
  return await jobListJson(db, { ...(owner === undefined ? {} : { owner }), ...place });
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
