import type { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { publicFile } from '../../contract/file.ts';
import type { AccessService } from '../../services/identity/access.ts';
import type { FileService } from '../../services/jobs/file-service.ts';
import type { FileRequest, ListedFile } from '../../services/jobs/read-files.ts';
import type { OpenRequests } from '../limits/open-requests.ts';
import { describeRoute, notModified, selectHeaders } from '../openapi/describe-route.ts';
import { requestSignal } from '../request/abort-signals.ts';
import { actorOf } from '../request/authentication.ts';
import { authorize } from '../request/authorization.ts';
import { type OwnerScope, ownerScopes } from '../request/owner-scope.ts';
import { jobIdOf, jobParams, projectScope } from '../request/path-params.ts';
import { streamJsonArray } from '../response/json-array.ts';
import { sendEmpty } from '../response/send.ts';
import { sendFile, setDownloadHeaders } from '../response/send-file.ts';
import { addResource } from './resource.ts';

const binary = { schema: Type.String({ format: 'binary' }) };
const folderContent = { 'application/json': { schema: Type.Array(Type.Ref('File')) }, 'application/zip': binary };
const folderResponse = {
  description: 'The files, sorted by path unless there are more than 10,000; or all of them as a zip.',
  content: folderContent,
};
const downloadHeaders = ['ETag', 'Last-Modified', 'Accept-Ranges', 'Content-Disposition'] as const;
const fileResponses = {
  200: {
    description: 'The file, with the media type of its name; or a folder.',
    headers: selectHeaders(downloadHeaders),
    content: { ...folderContent, 'application/octet-stream': binary },
  },
  206: {
    description: 'The requested range.',
    headers: selectHeaders([...downloadHeaders, 'Content-Range']),
    content: { 'application/octet-stream': binary },
  },
  304: notModified,
};
const FolderQuery = Type.Object({
  archive: Type.Optional(Type.Enum(['zip'], { description: 'Download the folder as a zip instead of listing it.' })),
});

/** The files in a job's working directory: as a list, one by one, or as a zip. */
export function fileRoutes(
  app: FastifyInstance,
  files: FileService,
  access: AccessService,
  openRequests: OpenRequests,
): void {
  const { own, anyUser } = ownerScopes('files', access);
  for (const scope of [own, anyUser]) readRoutes(app, files, scope, access, openRequests);
}

function readRoutes(
  app: FastifyInstance,
  files: FileService,
  scope: OwnerScope,
  access: AccessService,
  openRequests: OpenRequests,
): void {
  const { tag } = scope;
  const params = { ...scope.params, ...jobParams };
  const toFileRequest = async (request: FastifyRequest, reply: FastifyReply): Promise<FileRequest> => {
    openRequests.openUntilClosed('download', actorOf(request).userId, reply);
    return {
      owner: await scope.ownerOf(request),
      user: actorOf(request).userId,
      project: projectScope(request),
      jobId: jobIdOf(request),
      path: (request.params as { '*'?: string })['*'] ?? '',
      // Not aborted when the server starts to close: a download may finish until the drain time is over.
      signal: requestSignal(reply),
    };
  };
  const handleFolder = async (request: FastifyRequest, reply: FastifyReply) => {
    const fileRequest = await toFileRequest(request, reply);
    const { archive } = request.query as { archive?: 'zip' };
    if (archive !== undefined) await authorize(request, { action: 'files.read', reach: scope.reach }, access);
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
      access: { action: 'files.list', reach: scope.reach },
      schema: {
        ...describeRoute(tag, scope.operationId('listJobFiles'), scope.describe('job: its files'), {
          200: folderResponse,
        }),
        description: 'With `archive=zip`, downloads all files as a zip. Links and special files are left out.',
        params: Type.Object(params),
        querystring: FolderQuery,
      },
      handler: handleFolder,
    },
  });
  addResource(app, `${list}*`, {
    GET: {
      access: { action: 'files.read', reach: scope.reach },
      schema: {
        ...describeRoute(tag, scope.operationId('getJobFile'), scope.describe('job: one of its files'), fileResponses),
        description:
          'A path with a trailing slash is a folder, which is listed or archived. Supports `Range`, `If-Range`, ' +
          '`If-None-Match` and `If-Modified-Since`.',
        params: Type.Object({ ...params, '*': Type.String({ description: 'A path from the list of files.' }) }),
        querystring: FolderQuery,
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
