import Type, { type Static } from 'typebox';
import { timestamp } from './fields.ts';
import { toIsoTime } from './json-format.ts';

export const FileSchema = Type.Object(
  {
    path: Type.String({
      description:
        'Path relative to the working directory of the job. Append it to the URL of this list to get the file.',
    }),
    size: Type.Integer({ description: 'Size in bytes.' }),
    modified: timestamp,
  },
  {
    $id: 'File',
    additionalProperties: false,
    examples: [{ path: 'results/output.csv', size: 1234, modified: '2026-01-31T12:00:00.000Z' }],
  },
);

export function publicFile(file: { path: string; size: number; modifiedAt: number }): Static<typeof FileSchema> {
  return { path: file.path, size: file.size, modified: toIsoTime(file.modifiedAt) };
}
