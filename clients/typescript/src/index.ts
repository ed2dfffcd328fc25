export type { Api, OperationOptions, ResponseForm, ZipBody } from './api.ts';
export { Bursar } from './bursar.ts';
export { ApiError, ConnectionError } from './errors.ts';
export type * from './generated/types.ts';
export type { ClientOptions } from './http.ts';
