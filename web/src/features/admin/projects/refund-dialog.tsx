import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { bursar } from '../../../client/bursar.ts';
import { keys } from '../../../client/queries.ts';
import { formatAmount } from '../../../shared/amount.ts';
import type { ProjectName } from '../../../shared/permissions.ts';
import { TextField } from '../../../ui/field.tsx';
import { describeError } from '../../../ui/states.tsx';
import { useDebounced } from '../../../ui/use-debounced.ts';
import type { AccountFigures } from '../account-figures.tsx';
import { ActionDialog } from '../action-dialog.tsx';
import { AmountField } from './amount-field.tsx';
import { previewGrant } from './grant-preview.ts';
import { parseAmount } from './parse-amount.ts';
import { PreviewView } from './preview-view.tsx';
import { type ProjectDialogProps, useProjectChange } from './project-changes.ts';

const typingPauseMs = 400;

/** Gives charged time of a job back to its owner. */
export function RefundDialog(props: ProjectDialogProps & { accounts: readonly AccountFigures[] }) {
  const { project, charge, accounts, onClose } = props;
  const apply = useProjectChange(charge);
  const [jobId, setJobId] = useState('');
  const [text, setText] = useState('');
  const job = useChargedJob(project, jobId.trim());
  const amount = parseAmount(text, 'time');
  const refundable = job.data?.charged_seconds ?? 0;
  const preview =
    amount === undefined || job.data === undefined
      ? undefined
      : previewGrant(accounts, { kind: 'refund', user: job.data.job.owner, resource: 'time', amount, refundable });

  const submit = (reason: string, key: string) =>
    apply(
      bursar.api.refundJob({
        path: { hpc: project.hpc, project_name: project.project },
        headers: { 'Idempotency-Key': key },
        body: { job_id: jobId.trim(), amount: amount ?? 0, reason },
      }),
      `${formatAmount('time', amount ?? 0, charge)} refunded`,
    );

  return (
    <ActionDialog
      title={`Refund a job of ${project.project}`}
      submitLabel="Refund"
      canSubmit={preview !== undefined && preview.problem === undefined}
      onClose={onClose}
      onSubmit={submit}
    >
      <TextField
        label="Job"
        placeholder="The id of the job"
        autoComplete="off"
        spellCheck={false}
        value={jobId}
        onChange={(event) => setJobId(event.target.value)}
        error={job.isError ? describeError(job.error).message : undefined}
        hint={
          job.data === undefined
            ? 'It is on the page of the job.'
            : `“${job.data.job.title}” of user ${job.data.job.owner}: ${formatAmount('time', refundable, charge)} charged`
        }
      />
      <AmountField label="Amount" resource="time" charge={charge} value={text} onChange={setText} />
      <PreviewView preview={preview} resource="time" charge={charge} />
    </ActionDialog>
  );
}

/** Reads the charge of a job, when the typing has paused. */
function useChargedJob({ hpc, project }: ProjectName, typedId: string) {
  const jobId = useDebounced(typedId, typingPauseMs);
  return useQuery({
    queryKey: [...keys.job(jobId), 'charge', hpc, project],
    queryFn: ({ signal }) =>
      bursar.api.getJobTimelineOfAnyUser({ path: { hpc, project_name: project, job_id: jobId }, signal }),
    enabled: jobId !== '' && jobId === typedId,
    staleTime: 0,
  });
}
