import { BursarError, type ErrorCode } from '../../domain/errors.ts';

/** Exit codes of the operators' commands: 0 is success, each kind of failure has its own number. */
export const exitCodes = {
  failure: 1,
  usage: 2,
  configuration: 3,
  notFound: 4,
  inUse: 5,
} as const;

const exitCodeByError: Partial<Record<ErrorCode, number>> = {
  invalid_argument: exitCodes.usage,
  invalid_config: exitCodes.configuration,
  not_found: exitCodes.notFound,
  system_unknown: exitCodes.notFound,
  project_unknown: exitCodes.notFound,
  job_unknown: exitCodes.notFound,
  quota_unknown: exitCodes.notFound,
  user_unknown: exitCodes.notFound,
  data_in_use: exitCodes.inUse,
};

export function exitCodeFor(error: unknown): number {
  return error instanceof BursarError ? (exitCodeByError[error.code] ?? exitCodes.failure) : exitCodes.failure;
}
