import { queryOptions } from '@tanstack/react-query';
import { keys } from '../../../../client/queries.ts';
import type { JobSource, LogStream } from '../job-source.ts';
import { readRange } from './log-reader.ts';
import { toPlainLine } from './plain-text.ts';

const maxBytes = 16_000;
const maxLines = 20;

/** The end of stderr, or of stdout if the job wrote no errors. */
export const lastLinesQuery = (source: JobSource) =>
  queryOptions({
    queryKey: [...keys.job(source.path.job_id), 'last-lines', source.isAdmin],
    queryFn: async ({ signal }) => {
      const text = await readLastLines(source, 'stderr', signal);
      if (text !== '') return { stream: 'stderr' as const, text };
      return { stream: 'stdout' as const, text: await readLastLines(source, 'stdout', signal) };
    },
  });

async function readLastLines(source: JobSource, stream: LogStream, signal: AbortSignal): Promise<string> {
  const size = (await source.logSize(stream, signal)) ?? maxBytes;
  const offset = Math.max(0, size - maxBytes);
  const bytes = await readRange(source, stream, offset, maxBytes, signal);
  const lines = new TextDecoder().decode(bytes).trimEnd().split('\n');
  // The first line of a part is cut.
  return (offset > 0 ? lines.slice(1) : lines).slice(-maxLines).map(toPlainLine).join('\n');
}
