import type { Job, Me, System } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { useEffect, useEffectEvent, useState } from 'react';
import { meQuery, systemsQuery } from '../../client/queries.ts';
import { jobName } from '../../shared/job-name.ts';
import { pageParamsOf } from '../../shared/job-path.ts';
import { PageHeader } from '../../ui/card.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { toast } from '../../ui/toast.tsx';
import { useDraft } from '../../ui/use-draft.ts';
import { EarlierJob } from './earlier-job.tsx';
import type { Selection } from './files/selection.ts';
import { completeValues } from './form/complete-values.ts';
import { fromEarlierJob } from './form/from-earlier-job.ts';
import { emptyValues, type SubmitValues } from './form/values.ts';
import { earlierJobQuery } from './queries.ts';
import { SubmitForm } from './submit-form.tsx';

export function SubmitPage() {
  const systems = useQuery(systemsQuery);
  const me = useQuery(meQuery);
  return (
    <>
      <PageHeader title="Submit a job" />
      <QueryView query={systems}>
        {(systemList) => <QueryView query={me}>{(user) => <SubmitDraft systems={systemList} me={user} />}</QueryView>}
      </QueryView>
    </>
  );
}

/** Keeps what was typed, also over a reload. Links to this page choose a system, or an earlier job. */
function SubmitDraft({ systems, me }: { systems: readonly System[]; me: Me }) {
  const search = useSearch({ from: '/submit' });
  const navigate = useNavigate();
  const draftKey = `submit ${me.user}`;
  const [values, setValues, clearValues] = useDraft<SubmitValues>(draftKey, emptyValues);
  const [selection, setSelection] = useState<Selection | null>(null);
  const from = search.from ?? '';
  const earlier = useQuery({ ...earlierJobQuery(from), enabled: from !== '' });

  const applySystem = useEffectEvent((hpc: string, project: string) => {
    setValues({ ...values, hpc, project });
    void navigate({ to: '/submit', search: { from: search.from }, replace: true });
  });
  useEffect(() => {
    if (search.hpc !== undefined) applySystem(search.hpc, search.project ?? '');
  }, [search.hpc, search.project]);

  const applyEarlier = useEffectEvent((job: NonNullable<typeof earlier.data>) => {
    if (values.from !== from) setValues(fromEarlierJob(from, job));
  });
  useEffect(() => {
    if (earlier.data !== undefined) applyEarlier(earlier.data);
  }, [earlier.data]);

  const onSubmitted = (job: Job) => {
    clearValues();
    // The page is left before `clearValues` reaches the storage.
    sessionStorage.removeItem(draftKey);
    toast.show('The job was submitted', jobName(job));
    void navigate({ to: '/jobs/$hpc/$project/$jobId', params: pageParamsOf(job), ignoreBlocker: true });
  };
  const form = completeValues(values, systems, me);
  if (form === null)
    return <EmptyState title="There is no HPC system">The operators have not configured one.</EmptyState>;
  return (
    <div className="stack">
      {from !== '' && (
        <EarlierJob
          key={from}
          path={from}
          title={earlier.data?.timeline.job.title}
          error={earlier.error}
          onSelect={setSelection}
          onForget={() => {
            clearValues();
            void navigate({ to: '/submit', search: {}, replace: true });
          }}
        />
      )}
      <SubmitForm
        {...form}
        systems={systems}
        selection={selection}
        onSelect={setSelection}
        onChange={(change) => setValues({ ...form.values, ...change })}
        onSubmitted={onSubmitted}
      />
    </div>
  );
}
