import type { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { publicFile } from '../../contract/file.ts';
import type { AccessService } from '../../services/identity/access.ts';
import type { FileService } from '../../services/jobs/file-service.ts';
import type { FileQuestion, ListedFile } from '../../services/jobs/read-files.ts';
import { type OwnerScope, ownerScopes } from '../request/owner-scope.ts';
import { jobIdOf, jobParams, projectPath } from '../request/path-params.ts';
import { jsonArray } from '../response/json-array.ts';
import { sendFile, setDownloadHeaders } from '../response/send-file.ts';
import { sendEmpty } from '../response/send-nothing.ts';
import { requestSignal } from '../server/abort-signals.ts';
import { describe } from '../server/openapi.ts';
import { resource } from './resource.ts';

const FileList = Type.Array(Type.Ref('File'), { description: 'By path, as long as there are not very many.' });
const FolderQuery = Type.Object({
  archive: Type.Optional(Type.Enum(['zip'], { description: 'All of it as one zip, instead of the list.' })),
});
const bytes = (description: string) => ({
  description,
  content: { 'application/octet-stream': { schema: Type.String({ format: 'binary' }) } },
});

const whole = bytes('The file; of a folder the list.');

/** What a job has in its working directory: the list, single files, and all as a zip. */
export function fileRoutes(app: FastifyInstance, files: FileService, access: AccessService): void {
  const { own, ofUser, everybody } = ownerScopes('files', access);
  for (const scope of [own, ofUser, everybody]) readRoutes(app, files, scope);
}

function readRoutes(app: FastifyInstance, files: FileService, scope: OwnerScope): void {
  const { tag } = scope;
  const params = { ...scope.params, ...jobParams };
  const questionOf = async (request: FastifyRequest, reply: FastifyReply): Promise<FileQuestion> => ({
    owner: await scope.ownerOf(request),
    place: projectPath(request),
    jobId: jobIdOf(request),
    path: (request.params as { '*'?: string })['*'] ?? '',
    // A server that closes gives a download its time; then it is cut off, and can be resumed.
    signal: requestSignal(reply),
  });
  const folder = async (request: FastifyRequest, reply: FastifyReply) => {
    const question = await questionOf(request, reply);
    const { archive } = request.query as { archive?: 'zip' };
    if (archive === undefined) return sendList(reply, await files.list(question));
    return sendArchive(reply, question, () => files.archive(question));
  };
  const file = async (request: FastifyRequest, reply: FastifyReply) => {
    const question = await questionOf(request, reply);
    return await sendFile(reply, question.path, await files.open(question));
  };

  const list = `${scope.prefix}:hpc/:project_name/:job_id/`;
  resource(app, list, {
    GET: {
      schema: {
        ...describe(tag, scope.describe('files: those of one job'), { 200: FileList }),
        description: 'With `archive=zip` all of them as a zip. Links and special files are left out.',
        params: Type.Object(params),
        querystring: FolderQuery,
      },
      handler: folder,
    },
  });
  const { response, ...head } = describe(tag, scope.describe('files: one of them'), {});
  resource(app, `${list}*`, {
    GET: {
      schema: {
        ...head,
        description:
          'With a slash at its end the path is a folder, which is listed or archived like the whole. `Range`, ' +
          '`If-Range`, `If-None-Match` and `If-Modified-Since` are understood.',
        params: Type.Object({ ...params, '*': Type.String({ description: 'A path, as the list shows it.' }) }),
        querystring: FolderQuery,
        response: {
          200: { ...whole, content: { 'application/json': { schema: FileList }, ...whole.content } },
          206: bytes('The part asked for.'),
          304: { type: 'null', description: 'It has not changed.' },
          ...response,
        },
      },
      handler: (request, reply) => (isFolder(request) ? folder(request, reply) : file(request, reply)),
    },
  });
}

/** The router treats paths with and without a last slash alike. */
const isFolder = (request: FastifyRequest) => /^[^?]*\/(\?|$)/.test(request.url);

async function sendList(reply: FastifyReply, files: AsyncIterable<ListedFile>): Promise<FastifyReply> {
  const json = await jsonArray(files, publicFile, (one, other) => (one.path < other.path ? -1 : 1));
  return reply.header('content-type', 'application/json').send(json);
}

async function sendArchive(reply: FastifyReply, { jobId, path }: FileQuestion, open: () => Promise<Readable>) {
  const name = path.split('/').at(-1) || jobId;
  const zip = await open();
  setDownloadHeaders(reply, `${name}.zip`, 'application/zip');
  if (reply.request.method !== 'HEAD') return reply.send(zip);
  zip.destroy();
  return sendEmpty(reply);
}
