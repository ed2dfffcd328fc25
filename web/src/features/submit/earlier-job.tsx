import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { formatBytes } from '../../../../src/domain/format-amount.ts';
import { bursar } from '../../client/bursar.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Link } from '../../ui/link.tsx';
import { describeError } from '../../ui/states.tsx';
import type { Selection } from './files/selection.ts';
import styles from './submit.module.css';

interface EarlierJobProps {
  /** `hpc/project/job_id` */
  path: string;
  title: string | undefined;
  /** The request of the job could not be read. */
  error: unknown;
  onSelect: (selection: Selection) => void;
  onForget: () => void;
}

/** Says that the form was filled from an earlier job, and offers its files. */
export function EarlierJob({ path, title, error, onSelect, onForget }: EarlierJobProps) {
  const [hpc = '', project = '', jobId = ''] = path.split('/');
  const [receivedBytes, setReceivedBytes] = useState(0);
  const download = useMutation({
    mutationFn: () => downloadFiles({ hpc, project_name: project, job_id: jobId }, setReceivedBytes),
    onSuccess: (zip) => onSelect({ kind: 'zip', name: `${jobId}.zip`, zip }),
  });
  return (
    <Card
      title="From an earlier job"
      actions={
        <Button variant="quiet" onClick={onForget}>
          Start empty instead
        </Button>
      }
    >
      <div className="stack">
        {error ? (
          <p className={styles.bad}>{describeError(error).message}</p>
        ) : (
          <p>
            The form has the values of{' '}
            <Link to="/jobs/$hpc/$project/$jobId" params={{ hpc, project, jobId }}>
              {title || jobId}
            </Link>
            . Change what you like.
          </p>
        )}
        <div className="row">
          <Button isBusy={download.isPending} onClick={() => download.mutate()}>
            Use its files again
          </Button>
          <span className="muted" role="status">
            {download.isPending && `Downloading: ${formatBytes(receivedBytes)}`}
            {download.isSuccess && 'Its files are chosen below.'}
          </span>
        </div>
        <p className="muted">
          They come from the working directory of that job, so its results are among them. They are downloaded to your
          browser, and sent with the new job. Or choose other files below.
        </p>
        {download.isError && <p className={styles.bad}>{describeError(download.error).message}</p>}
      </div>
    </Card>
  );
}

async function downloadFiles(
  job: { hpc: string; project_name: string; job_id: string },
  onBytes: (count: number) => void,
) {
  const chunks: BlobPart[] = [];
  let count = 0;
  for await (const chunk of await bursar.job(job).archive()) {
    chunks.push(chunk as Uint8Array<ArrayBuffer>);
    count += chunk.length;
    onBytes(count);
  }
  return new Blob(chunks, { type: 'application/zip' });
}
