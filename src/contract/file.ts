import Type from 'typebox';
import { namedObject, timestamp } from './fields.ts';

export const FileSchema = namedObject(
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
