import { BursarError, type ErrorCode } from '../../domain/errors.ts';

/**
 * The hidden cause of an error that refuses access, where its code does not say so or the user is known although the
 * credentials are not valid. The audit trail records it.
 */
export class RefusedAccess extends Error {
  readonly userId: string | undefined;
  readonly tokenId: number | null;

  constructor(message: string, userId?: string, tokenId: number | null = null) {
    super(message);
    this.name = 'RefusedAccess';
    this.userId = userId;
    this.tokenId = tokenId;
  }
}

export function userDisabled(userId: string, tokenId: number | null = null): BursarError {
  const message = 'This user is disabled. Ask an administrator to enable the user again.';
  return new BursarError('user_disabled', message, { cause: new RefusedAccess('a disabled user', userId, tokenId) });
}

/** Without `token_missing`: a request without any credentials tries nothing. */
const refusalCodes = new Set<ErrorCode>([
  'token_invalid',
  'identity_conflict',
  'session_ended',
  'sign_in_failed',
  'csrf_refused',
  'user_disabled',
  'forbidden',
  'insufficient_scope',
  'not_a_member',
  'banned',
]);

export function isRefusedAccess(error: unknown): error is BursarError {
  return error instanceof BursarError && (refusalCodes.has(error.code) || error.cause instanceof RefusedAccess);
}
