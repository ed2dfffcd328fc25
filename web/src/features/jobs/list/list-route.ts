/** The pages with a list of jobs: those of the user, and those of all users. */
export type ListRoute = '/jobs' | '/admin/jobs';
