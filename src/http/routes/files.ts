import type { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import Type, { type Static } from 'typebox';
import { namedObject, timestamp, toIsoTime } from '../../contract/fields.ts';
import {
  archiveFiles,
  type FileRequest,
  type ListedFile,
  listFiles,
  openFile,
} from '../../services/jobs/read-files.ts';
import type { Owner } from '../../services/scope.ts';
import { type CallerRequest, notModified, operation, operations, others, own } from '../operation.ts';
import { authorize } from '../request/access.ts';
import { requestSignal } from '../request/open-response.ts';
import { toJob } from '../request/path-params.ts';
import { sendEmpty } from '../response/send.ts';
import { sendFile, setDownloadHeaders } from '../response/send-file.ts';
import { sendBatches } from '../response/tables.ts';
import type { RouteContext } from './context.ts';

const FileSchema = namedObject(
  'File',
  {
    path: Type.String({
      description:
        'Path relative to the working directory of the job. Append it to the URL of this list to get the file.',
    }),
    size: Type.Integer({ description: 'Size in bytes.' }),
    modified: timestamp,
  },
  { path: 'results/output.csv', size: 1234, modified: '2026-01-31T12:00:00.000Z' },
);

const folderQuery = {
  archive: Type.Optional(Type.Enum(['zip'], { description: 'Download the folder as a zip instead of listing it.' })),
};

const binary = { schema: Type.String({ format: 'binary' }) };
const folderContent = { 'application/json': { schema: Type.Array(FileSchema) }, 'application/zip': binary };
const folder = {
  description: 'With `archive=zip`, downloads all files as a zip. Links and special files are left out.',
  query: folderQuery,
  responses: {
    200: {
      description: 'The files, sorted by path unless there are more than 10,000; or all of them as a zip.',
      content: folderContent,
    },
  },
};
const downloadHeaders = ['ETag', 'Last-Modified', 'Accept-Ranges', 'Content-Disposition'] as const;
const file = {
  description:
    'A path with a trailing slash is a folder, which is listed or archived. Supports `Range`, `If-Range`, ' +
    '`If-None-Match` and `If-Modified-Since`.',
  query: folderQuery,
  responses: {
    200: {
      description: 'The file, with the media type of its name; or a folder.',
      headers: downloadHeaders,
      content: { ...folderContent, 'application/octet-stream': binary },
    },
    206: {
      description: 'The requested range.',
      headers: [...downloadHeaders, 'Content-Range'] as const,
      content: { 'application/octet-stream': binary },
    },
    304: notModified,
  },
};

type FolderRequest = CallerRequest<'/{hpc}/{project_name}/{job_id}/', typeof folderQuery>;

/** The files in a job's working directory: as a list, one by one, or as a zip. */
export function fileOperations(context: RouteContext) {
  const toFileRequest = (request: FolderRequest, reply: FastifyReply, owner: Owner): FileRequest => {
    const { caller, params } = request;
    context.countOpenRequest('download', caller.userId, reply);
    return {
      ...toJob(params, owner),
      user: caller.userId,
      path: 'path' in params ? String(params.path) : '',
      // Not aborted when the server starts to close: a download may finish until the drain time is over.
      signal: requestSignal(reply),
    };
  };

  const sendFolder = async (request: FolderRequest, reply: FastifyReply, owner: Owner) => {
    const fileRequest = toFileRequest(request, reply, owner);
    if (request.query.archive === undefined)
      return sendBatches(request, reply, toBatches(await listFiles(context, fileRequest)));
    await authorize(request, owner === undefined ? others('files.read') : own('files.read'), context);
    return sendArchive(reply, fileRequest, () => archiveFiles(context, fileRequest));
  };

  const send = async (request: FolderRequest, reply: FastifyReply, owner: Owner) => {
    // The router ignores a trailing slash, so the URL decides.
    if (/^[^?]*\/(\?|$)/.test(request.url)) return sendFolder(request, reply, owner);
    const fileRequest = toFileRequest(request, reply, owner);
    return sendFile(reply, fileRequest.path, await openFile(context, fileRequest));
  };

  return operations('files', {
    listJobFiles: operation({
      route: 'GET /files/{hpc}/{project_name}/{job_id}/',
      access: own('files.list'),
      summary: 'Your job: its files',
      ...folder,
      handler: (request, reply) => sendFolder(request, reply, request.caller.userId),
    }),
    getJobFile: operation({
      route: 'GET /files/{hpc}/{project_name}/{job_id}/{path}',
      access: own('files.read'),
      summary: 'Your job: one of its files',
      ...file,
      handler: (request, reply) => send(request, reply, request.caller.userId),
    }),
    listJobFilesOfAnyUser: operation({
      route: 'GET /admin/files/{hpc}/{project_name}/{job_id}/',
      access: others('files.list'),
      summary: 'Job of any user: its files',
      ...folder,
      handler: (request, reply) => sendFolder(request, reply, undefined),
    }),
    getJobFileOfAnyUser: operation({
      route: 'GET /admin/files/{hpc}/{project_name}/{job_id}/{path}',
      access: others('files.read'),
      summary: 'Job of any user: one of its files',
      ...file,
      handler: (request, reply) => send(request, reply, undefined),
    }),
  });
}

async function sendArchive(reply: FastifyReply, { jobId, path }: FileRequest, open: () => Promise<Readable>) {
  const name = path.split('/').at(-1) || jobId;
  const zip = await open();
  setDownloadHeaders(reply, `${name}.zip`, 'application/zip');
  if (reply.request.method !== 'HEAD') return reply.send(zip);
  zip.destroy();
  return sendEmpty(reply);
}

/** A longer list is sent unsorted while it is read, so that memory stays bounded. */
const maxSortedFiles = 10_000;

async function* toBatches(files: AsyncIterable<ListedFile>): AsyncGenerator<Static<typeof FileSchema>[]> {
  let batch: Static<typeof FileSchema>[] = [];
  let isFirst = true;
  for await (const { path, size, modifiedAt } of files) {
    if (batch.length === maxSortedFiles) {
      yield batch;
      batch = [];
      isFirst = false;
    }
    batch.push({ path, size, modified: toIsoTime(modifiedAt) });
  }
  yield isFirst ? batch.sort((a, b) => (a.path < b.path ? -1 : 1)) : batch;
}
