import { ApiError, ConnectionError, TokenError } from '#client';
import { BursarError } from '../../domain/errors.ts';
import type { Context } from './context.ts';
import { CommandError } from './errors.ts';
import { type ExitCodeName, exitCodes } from './exit-codes.ts';
import { escapeText } from './terminal/text.ts';

interface Report {
  exit: ExitCodeName;
  cause: string;
  nextStep?: string | undefined;
  requestId?: string | undefined;
}

interface ApiErrorAdvice {
  exit?: ExitCodeName;
  nextStep?: string;
}

const signIn: ApiErrorAdvice = { exit: 'notSignedIn', nextStep: 'Run: bursar login' };
const waitForServer: ApiErrorAdvice = {
  exit: 'serverUnavailable',
  nextStep: 'Try again later; your jobs are not affected.',
};
const showQuota: ApiErrorAdvice = { exit: 'quota', nextStep: 'See what is left: bursar quota' };
const showSystems: ApiErrorAdvice = { nextStep: 'See the systems and their projects: bursar systems' };
const showJobs: ApiErrorAdvice = { nextStep: 'See your jobs: bursar jobs --all' };

/** The exit code and the next step for codes of the API. The detail of the error itself often has the next step already. */
const adviceByCode: Record<string, ApiErrorAdvice> = {
  bad_request: { exit: 'usage' },
  invalid_payload: { exit: 'usage' },
  invalid_body: { exit: 'usage' },
  token_missing: signIn,
  token_invalid: signIn,
  session_ended: signIn,
  sign_in_failed: signIn,
  insufficient_scope: { nextStep: 'Sign in with the scope: bursar login --scopes "…", or use another token.' },
  quota_exceeded: showQuota,
  no_grant: showQuota,
  too_many_jobs: { exit: 'quota', nextStep: 'Wait until some of your jobs have ended: bursar jobs --watch' },
  system_unknown: showSystems,
  project_unknown: showSystems,
  not_a_member: showSystems,
  job_unknown: showJobs,
  file_unknown: { nextStep: 'See the files of the job: bursar job files <job>' },
  unexpected_response: { nextStep: 'Check the address of the server: bursar profiles' },
};

/** Prints the cause of a failure and the next step, in two lines. Returns the exit code. */
export function reportError(context: Context, error: unknown): number {
  const { exit, cause, nextStep, requestId } = describeError(error);
  const { errorStyle: style, options } = context;
  context.note(`${style('red', 'error:')} ${cause}`);
  if (nextStep !== undefined) context.note(nextStep);
  if (options.verbose && requestId !== undefined) context.note(style('dim', `request id: ${requestId}`));
  if (options.verbose && error instanceof Error && error.stack) context.note(style('dim', error.stack));
  return exitCodes[exit].code;
}

function describeError(error: unknown): Report {
  if (error instanceof CommandError) return { exit: error.exit, cause: error.message, nextStep: error.nextStep };
  // The rules that the command line shares with the server, such as those for zips.
  if (error instanceof BursarError) {
    return { exit: error.code === 'invalid_argument' ? 'usage' : 'failure', cause: escapeText(error.message) };
  }
  if (error instanceof ConnectionError) {
    const nextStep = 'Check the address (bursar profiles) and the network, or try again later.';
    return { exit: 'serverUnavailable', cause: escapeText(error.message), nextStep };
  }
  if (error instanceof TokenError) {
    return { exit: 'notSignedIn', cause: error.message, nextStep: 'Run: bursar login, or correct BURSAR_TOKEN.' };
  }
  if (error instanceof ApiError) {
    const advice = adviceByCode[error.code] ?? ([502, 503, 504].includes(error.status) ? waitForServer : {});
    const cause = escapeText(error.detail);
    return { exit: advice.exit ?? 'failure', cause, nextStep: advice.nextStep, requestId: error.requestId };
  }
  // Errors of files, and of the client about files, have a code and a message for people.
  if (error instanceof Error && 'code' in error) return { exit: 'failure', cause: escapeText(error.message) };
  const cause = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { exit: 'failure', cause: `This is a bug in the command line. ${cause}` };
}
