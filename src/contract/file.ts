import Type, { type Static } from 'typebox';
import { toIsoTime } from './json-format.ts';

/** A file of a job, as its owner sees it. */
export const FileSchema = Type.Object(
  {
    path: Type.String({ description: 'From the working directory of the job. It follows the path of the list.' }),
    size: Type.Integer({ description: 'In bytes.' }),
    modified: Type.String({ description: 'ISO 8601, UTC.' }),
  },
  { $id: 'File', additionalProperties: false },
);

export function publicFile(file: { path: string; size: number; modifiedAt: number }): Static<typeof FileSchema> {
  return { path: file.path, size: file.size, modified: toIsoTime(file.modifiedAt) };
}
