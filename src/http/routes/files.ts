import type { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { publicFile } from '../../contract/file.ts';
import type { AccessService } from '../../services/identity/access.ts';
import type { FileService } from '../../services/jobs/file-service.ts';
import type { FileRequest, ListedFile } from '../../services/jobs/read-files.ts';
import { type OwnerScope, ownerScopes } from '../request/owner-scope.ts';
import { jobIdOf, jobParams, projectScope } from '../request/path-params.ts';
import { streamJsonArray } from '../response/json-array.ts';
import { sendEmpty } from '../response/send.ts';
import { sendFile, setDownloadHeaders } from '../response/send-file.ts';
import { requestSignal } from '../server/abort-signals.ts';
import { describeRoute } from '../server/openapi.ts';
import { addResource } from './resource.ts';

const FileList = Type.Array(Type.Ref('File'), {
  description: 'Sorted by path, unless there are more than 10,000 files.',
});
const FolderQuery = Type.Object({
  archive: Type.Optional(Type.Enum(['zip'], { description: 'Download the folder as a zip instead of listing it.' })),
});
const binary = (description: string) => ({
  description,
  content: { 'application/octet-stream': { schema: Type.String({ format: 'binary' }) } },
});

const fileResponse = binary('The file, or the list of a folder.');

/** The files in a job's working directory: as a list, one by one, or as a zip. */
export function fileRoutes(app: FastifyInstance, files: FileService, access: AccessService): void {
  const { own, allUsers } = ownerScopes('files', access);
  for (const scope of [own, allUsers]) readRoutes(app, files, scope);
}

function readRoutes(app: FastifyInstance, files: FileService, scope: OwnerScope): void {
  const { tag } = scope;
  const params = { ...scope.params, ...jobParams };
  const toFileRequest = async (request: FastifyRequest, reply: FastifyReply): Promise<FileRequest> => ({
    owner: await scope.ownerOf(request),
    project: projectScope(request),
    jobId: jobIdOf(request),
    path: (request.params as { '*'?: string })['*'] ?? '',
    // Not aborted when the server starts to close: a download may finish until the drain time is over.
    signal: requestSignal(reply),
  });
  const handleFolder = async (request: FastifyRequest, reply: FastifyReply) => {
    const fileRequest = await toFileRequest(request, reply);
    const { archive } = request.query as { archive?: 'zip' };
    if (archive === undefined) return sendList(reply, await files.list(fileRequest));
    return sendArchive(reply, fileRequest, () => files.archive(fileRequest));
  };
  const handleFile = async (request: FastifyRequest, reply: FastifyReply) => {
    const fileRequest = await toFileRequest(request, reply);
    return await sendFile(reply, fileRequest.path, await files.open(fileRequest));
  };

  const list = `${scope.prefix}:hpc/:project_name/:job_id/`;
  addResource(app, list, {
    GET: {
      schema: {
        ...describeRoute(tag, scope.describe('files: list those of one job'), { 200: FileList }),
        description: 'With `archive=zip`, downloads all files as a zip. Links and special files are left out.',
        params: Type.Object(params),
        querystring: FolderQuery,
      },
      handler: handleFolder,
    },
  });
  const { response, ...route } = describeRoute(tag, scope.describe('files: download one'), {});
  addResource(app, `${list}*`, {
    GET: {
      schema: {
        ...route,
        description:
          'A path with a trailing slash is a folder, which is listed or archived. Supports `Range`, `If-Range`, ' +
          '`If-None-Match` and `If-Modified-Since`.',
        params: Type.Object({ ...params, '*': Type.String({ description: 'A path from the list of files.' }) }),
        querystring: FolderQuery,
        response: {
          200: { ...fileResponse, content: { 'application/json': { schema: FileList }, ...fileResponse.content } },
          206: binary('The requested range.'),
          304: { type: 'null', description: 'The file has not changed.' },
          ...response,
        },
      },
      handler: (request, reply) => (isFolder(request) ? handleFolder(request, reply) : handleFile(request, reply)),
    },
  });
}

/** The router ignores a trailing slash, so the URL decides. */
const isFolder = (request: FastifyRequest) => /^[^?]*\/(\?|$)/.test(request.url);

async function sendList(reply: FastifyReply, files: AsyncIterable<ListedFile>): Promise<FastifyReply> {
  const json = await streamJsonArray(files, publicFile, (a, b) => (a.path < b.path ? -1 : 1));
  return reply.header('content-type', 'application/json').send(json);
}

async function sendArchive(reply: FastifyReply, { jobId, path }: FileRequest, open: () => Promise<Readable>) {
  const name = path.split('/').at(-1) || jobId;
  const zip = await open();
  setDownloadHeaders(reply, `${name}.zip`, 'application/zip');
  if (reply.request.method !== 'HEAD') return reply.send(zip);
  zip.destroy();
  return sendEmpty(reply);
}
