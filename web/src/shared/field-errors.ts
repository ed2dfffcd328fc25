import { ApiError } from '@bursar/client';

/** Messages by the names of the fields in the API, such as `node_number`. */
export type FieldErrors = Readonly<Record<string, string>>;

/** The messages of an error response for the fields of a form. */
export function fieldErrors(error: unknown): FieldErrors {
  if (!(error instanceof ApiError)) return {};
  return Object.fromEntries(error.fields.map(({ field, message }) => [field, message]));
}
