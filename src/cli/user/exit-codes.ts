/** Exit codes of the users' commands. The help and docs/command-line.md are made from this table. */
export const exitCodes = {
  success: { code: 0, meaning: 'success' },
  failure: { code: 1, meaning: 'any other error' },
  usage: { code: 2, meaning: 'wrong usage: an unknown option, or a value that is not valid' },
  notSignedIn: { code: 4, meaning: 'not signed in, or the token is not valid any more' },
  quota: { code: 5, meaning: 'the quota, or the number of unfinished jobs, does not allow it' },
  serverUnavailable: { code: 6, meaning: 'the server cannot be reached, or cannot answer at the moment' },
  jobFailed: { code: 100, meaning: 'the job has failed' },
  jobUnfinished: { code: 101, meaning: 'the job has not finished; Ctrl-C ended watching it' },
  jobCancelled: { code: 103, meaning: 'the job was cancelled' },
  interrupted: { code: 130, meaning: 'Ctrl-C, while no job was watched' },
} as const;

export type ExitCodeName = keyof typeof exitCodes;

export function formatExitCodes(): string {
  return Object.values(exitCodes)
    .map(({ code, meaning }) => `  ${String(code).padStart(3)}  ${meaning}`)
    .join('\n');
}
