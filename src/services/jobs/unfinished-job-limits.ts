import { BursarError } from '../../domain/errors.ts';

/** Numbers of unfinished jobs: of one user in all projects, and of one project for all users. */
export interface UnfinishedJobs {
  user: number;
  project: number;
}

/** Unfinished jobs may take hours to end, but a client that waits for much longer wastes free places. */
const retryAfterSeconds = 60;

/** Returns the error of a submission if the counts, with the new job included, exceed a limit. Otherwise null. */
export function findJobLimitError(counts: UnfinishedJobs, limits: UnfinishedJobs, project: string): BursarError | null {
  const advice = 'Wait until some have ended, or cancel some';
  if (counts.user > limits.user) {
    const message = `You have ${counts.user - 1} unfinished jobs, and the limit is ${limits.user}. ${advice}.`;
    return tooManyJobs(message, limits.user);
  }
  if (counts.project > limits.project) {
    const message =
      `The users of ${project} have ${counts.project - 1} unfinished jobs together, and the limit is ` +
      `${limits.project}. ${advice}, or use another project.`;
    return tooManyJobs(message, limits.project);
  }
  return null;
}

function tooManyJobs(message: string, limit: number): BursarError {
  return new BursarError('too_many_jobs', message, { transient: true, retryAfterSeconds, details: { limit } });
}
