export type { Api, OperationOptions, ResponseForm, ZipBody } from './api.ts';
export { Bursar, type JobFilter, type QuotaFilter, type StatementOptions } from './bursar.ts';
export { type Download, type DownloadOptions, FileChangedError } from './download.ts';
export { ApiError, ConnectionError, TokenError } from './errors.ts';
export type { EventOptions } from './events.ts';
export type * from './generated/types.ts';
/** Names that do not hide those of browsers. */
export type { Event as BursarEvent, File as JobFile } from './generated/types.ts';
export type { ClientOptions, RequestBody } from './http.ts';
export { JobHandle, type JobReference, type LogOptions, type WaitOptions } from './job.ts';
export { readAllPages } from './pages.ts';
export type { JobInput, JobRequest, SubmitOptions, UploadProgress, UploadSource } from './submit.ts';
