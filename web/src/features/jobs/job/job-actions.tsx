import type { Timeline } from '@bursar/client';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { keys, meQuery } from '../../../client/queries.ts';
import { type Action, mayAdminister } from '../../../shared/permissions.ts';
import { Button, buttonClass } from '../../../ui/button.tsx';
import { ConfirmDialog } from '../../../ui/confirm-dialog.tsx';
import { Link } from '../../../ui/link.tsx';
import { toast } from '../../../ui/toast.tsx';
import { CopyAs } from './copy-as.tsx';
import type { JobSource } from './job-source.ts';

/** Cancels, deletes and repeats the job. Only what is possible now, and allowed to the user, is offered. */
export function JobActions({ source, timeline }: { source: JobSource; timeline: Timeline }) {
  const { job, entries } = timeline;
  const { data: me } = useQuery(meQuery);
  const may = (action: Action) =>
    me !== undefined &&
    (!source.isAdmin || mayAdminister(me, action, { hpc: source.path.hpc, project: job.project_name }));
  const isDeleted = entries.some(({ type }) => type === 'job.deleted');
  const { hpc, project_name: project, job_id: jobId } = source.path;
  return (
    <>
      <CopyAs timeline={timeline} hpc={hpc} />
      {!source.isAdmin && (
        <Link className={buttonClass()} to="/submit" search={{ from: `${hpc}/${project}/${jobId}` }}>
          Resubmit
        </Link>
      )}
      {!job.terminal_stage && may('jobs.cancel') && <CancelButton source={source} />}
      {job.terminal_stage && !isDeleted && may('jobs.delete') && <DeleteButton source={source} />}
    </>
  );
}

function CancelButton({ source }: { source: JobSource }) {
  const [isOpen, setOpen] = useState(false);
  const [isRequested, setRequested] = useState(false);
  const queryClient = useQueryClient();
  const cancel = async (reason: string) => {
    await source.cancel(reason);
    setRequested(true);
    toast.show('Cancellation requested', 'The job ends as soon as the system has stopped it.');
    await queryClient.invalidateQueries({ queryKey: keys.job(source.path.job_id) });
  };
  return (
    <>
      <Button variant="danger" isBusy={isRequested} onClick={() => setOpen(true)}>
        {isRequested ? 'Cancelling…' : 'Cancel the job'}
      </Button>
      <ConfirmDialog
        title="Cancel this job?"
        confirmLabel="Cancel the job"
        isDangerous
        asksReason={source.isAdmin}
        isOpen={isOpen}
        onClose={() => setOpen(false)}
        onConfirm={cancel}
      >
        The system stops the job. The time that it has run is charged, and its files are kept.
        {source.isAdmin && ' The owner is told your reason.'}
      </ConfirmDialog>
    </>
  );
}

function DeleteButton({ source }: { source: JobSource }) {
  const [isOpen, setOpen] = useState(false);
  const queryClient = useQueryClient();
  const deleteFiles = async (reason: string) => {
    await source.deleteFiles(reason);
    toast.show('Files deleted', 'Their space is free again.');
    await queryClient.invalidateQueries({ queryKey: keys.job(source.path.job_id) });
  };
  return (
    <>
      <Button variant="danger" onClick={() => setOpen(true)}>
        Delete files
      </Button>
      <ConfirmDialog
        title="Delete the files of this job?"
        confirmLabel="Delete files"
        isDangerous
        asksReason={source.isAdmin}
        isOpen={isOpen}
        onClose={() => setOpen(false)}
        onConfirm={deleteFiles}
      >
        All files and the log of the job are removed and cannot be restored. Their space is free again. The job stays in
        the list, with its history and its charge.
        {source.isAdmin && ' The owner is told your reason.'}
      </ConfirmDialog>
    </>
  );
}
