import { errors } from 'jose';
import { BursarError } from '../../../domain/errors.ts';

/** The OpenID provider could not be asked. The token may be valid. */
export class ProviderFailure extends Error {
  constructor(cause: unknown) {
    super('the OpenID provider cannot be used', { cause });
  }
}

const retryAfterSeconds = 5;

/** Every error of a check becomes one of two: the token is not valid, or it cannot be checked now. */
export function toTokenError(cause: unknown): BursarError {
  if (cause instanceof BursarError) return cause;
  if (cause instanceof errors.JWTExpired) return invalidToken('This token has expired. Ask for a new one.', cause);
  if (cause instanceof errors.JOSEError) {
    const message =
      'This token is not valid: its signature, issuer, audience or dates are wrong. Get a token for this service.';
    return invalidToken(message, cause);
  }
  const message = 'The OpenID provider of this token cannot be reached. Try again later.';
  return new BursarError('unavailable', message, { cause, transient: true, retryAfterSeconds });
}

export function invalidToken(message: string, cause?: unknown): BursarError {
  return new BursarError('token_invalid', message, cause === undefined ? {} : { cause });
}
