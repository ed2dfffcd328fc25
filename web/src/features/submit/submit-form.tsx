import type { Job, System } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { findStartFileError } from '../../../../src/domain/jobs/command.ts';
import { fieldErrors } from '../../shared/field-errors.ts';
import { Card } from '../../ui/card.tsx';
import { TextField } from '../../ui/field.tsx';
import { useDebounced } from '../../ui/use-debounced.ts';
import { FilesCard } from './files/files-card.tsx';
import type { Selection } from './files/selection.ts';
import { useListing } from './files/use-listing.ts';
import { findObstacles } from './find-obstacles.ts';
import { checkValues } from './form/check-values.ts';
import type { CompletedForm } from './form/complete-values.ts';
import { ProgramFields } from './form/program-fields.tsx';
import { ResourceFields } from './form/resource-fields.tsx';
import { TargetFields } from './form/target-fields.tsx';
import { useFormField } from './form/use-form-field.ts';
import { type SubmitValues, toJobRequest } from './form/values.ts';
import { quotaQuery, quoteQuery } from './queries.ts';
import styles from './submit.module.css';
import { SubmitCard } from './submit-card.tsx';
import { useSubmission } from './use-submission.ts';

interface SubmitFormProps extends CompletedForm {
  systems: readonly System[];
  selection: Selection | null;
  onSelect: (selection: Selection | null) => void;
  onChange: (change: Partial<SubmitValues>) => void;
  onSubmitted: (job: Job) => void;
}

const quoteDelayMs = 300;

/** The form, the files, the cost, and the submission itself. */
export function SubmitForm(props: SubmitFormProps) {
  const { systems, system, projects, values, selection, onSelect, onSubmitted } = props;
  const submission = useSubmission(onSubmitted);
  const [refused, setRefused] = useState<SubmitValues>();
  const checked = useMemo(() => checkValues(values, system), [values, system]);
  // The server's own errors stay until the form changes.
  const serverErrors = refused === values ? fieldErrors(submission.error) : {};
  const errors = { ...checked.errors, ...serverErrors };
  const field = useFormField(errors);
  const listing = useListing(selection, system.input_limits);
  const entries = listing.kind === 'ready' ? listing.listing.entries : null;
  const isListed = listing.kind === 'none' || (listing.kind === 'ready' && listing.listing.problem === null);
  const startFileError =
    checked.request !== null && isListed ? (findStartFileError(checked.request, entries)?.message ?? null) : null;

  const isValid = checked.request !== null && values.project !== '';
  const requestKey = isValid ? JSON.stringify(toJobRequest(values, system)) : '';
  const settledKey = useDebounced(requestKey, quoteDelayMs);
  const quote = useQuery({
    ...quoteQuery(settledKey === '' ? { hpc: system.hpc } : JSON.parse(settledKey)),
    enabled: settledKey !== '' && settledKey === requestKey,
  });
  const { data: quota } = useQuery({ ...quotaQuery(system.hpc, values.project), enabled: values.project !== '' });

  const change = (next: Partial<SubmitValues>) => {
    submission.reset();
    props.onChange(next);
  };
  const obstacles = findObstacles({
    system,
    project: values.project,
    errors,
    listing,
    startFileError,
    quote,
    spaceLeft: quota?.space_left,
  });
  const start = () => {
    setRefused(values);
    submission.start({ values, system, selection });
  };
  return (
    <form
      className={styles.layout}
      onSubmit={(event) => {
        event.preventDefault();
        if (obstacles.length === 0 && !submission.isBusy) start();
      }}
    >
      <fieldset className={styles.main} disabled={submission.isBusy}>
        <legend className="visually-hidden">The job</legend>
        <FilesCard
          selection={selection}
          listing={listing}
          startFileError={startFileError}
          isDisabled={submission.isBusy}
          onSelect={(next) => {
            submission.reset();
            onSelect(next);
          }}
        />
        <Card title="Where and what">
          <div className="stack">
            <TargetFields systems={systems} system={system} projects={projects} values={values} onChange={change} />
            <ProgramFields system={system} values={values} field={field} onChange={change} />
          </div>
        </Card>
        <Card title="Resources">
          <ResourceFields system={system} values={values} field={field} onChange={change} />
        </Card>
        <Card title="Name">
          <div className={styles.fields}>
            <TextField
              label="Title (optional)"
              value={values.title}
              {...field('title', values.title)}
              onChange={(event) => change({ title: event.target.value })}
            />
            <TextField
              label="Tags (optional)"
              hint="Words with spaces or commas between them."
              value={values.tags}
              {...field('tags', values.tags)}
              onChange={(event) => change({ tags: event.target.value })}
            />
          </div>
        </Card>
      </fieldset>
      <SubmitCard
        system={system}
        quote={quote}
        isFormValid={isValid}
        left={quota === undefined ? undefined : { time: quota.time_left, space: quota.space_left }}
        unpackedBytes={listing.kind === 'ready' ? listing.listing.unpackedBytes : 0}
        obstacles={obstacles}
        submission={submission}
        onRuntime={(runtime) => change({ runtime })}
      />
    </form>
  );
}
