import type { Webhook } from '@bursar/client';
import { type FormEvent, useState } from 'react';
import { bursar } from '../../client/bursar.ts';
import { fieldErrors } from '../../shared/field-errors.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { TextField } from '../../ui/field.tsx';
import { ErrorMessage } from '../../ui/states.tsx';
import styles from './account.module.css';

type EventName = Webhook['events'][number];

const eventTexts: Record<Exclude<EventName, '*'>, string> = {
  'job.ended': 'a job has ended',
  'job.accepted': 'a job was accepted',
  'job.queued': 'a job is queued on its system',
  'job.running': 'a job has started',
  'job.delayed': 'a job cannot be submitted for now',
  'job.cancel_requested': 'somebody else cancels your job',
  'job.expiring': 'the files of a job will be deleted soon',
  'job.deleted': 'the files of a job were deleted',
  'quota.threshold': '80 % or all of a quota is used',
  'quota.changed': 'an administrator has changed a quota',
  'quota.expiring': 'a grant expires soon',
  'token.expiring': 'a token expires soon',
  'webhook.disabled': 'a webhook was disabled',
};

export interface WebhookValues {
  url: string;
  description: string;
  events: EventName[];
}

interface WebhookFormProps {
  initial: WebhookValues;
  submitLabel: string;
  onClose: () => void;
  /** Rejects with the error that the form shows. */
  onSubmit: (values: WebhookValues) => Promise<unknown>;
}

/** The properties of a webhook, for a new one and for changes. */
export function WebhookForm({ initial, submitLabel, onClose, onSubmit }: WebhookFormProps) {
  const [values, setValues] = useState(initial);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const sendsAll = values.events.includes('*');

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await onSubmit({ ...values, url: values.url.trim() });
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  const errors = fieldErrors(error);
  const setEvent = (name: EventName, isChosen: boolean) =>
    setValues({
      ...values,
      events: isChosen ? [...values.events, name] : values.events.filter((each) => each !== name),
    });

  return (
    <form className="stack" onSubmit={(event) => void submit(event)}>
      <TextField
        label="URL"
        type="url"
        hint="It must be reachable from this server, by https."
        placeholder="https://example.org/bursar"
        error={errors.url}
        value={values.url}
        onChange={(event) => setValues({ ...values, url: event.target.value })}
      />
      <TextField
        label="Description (optional)"
        maxLength={200}
        value={values.description}
        onChange={(event) => setValues({ ...values, description: event.target.value })}
      />
      <fieldset className={styles.choices}>
        <legend>Send an event when</legend>
        <Choice label="anything changes" isChosen={sendsAll} onChange={(chosen) => setEvent('*', chosen)} />
        {Object.entries(eventTexts).map(([name, text]) => (
          <Choice
            key={name}
            label={text}
            isChosen={sendsAll || values.events.includes(name as EventName)}
            isDisabled={sendsAll}
            onChange={(chosen) => setEvent(name as EventName, chosen)}
          />
        ))}
      </fieldset>
      {error !== undefined && <ErrorMessage error={error} />}
      <div className={styles.formActions}>
        <Button onClick={onClose}>Back</Button>
        <Button
          variant="primary"
          type="submit"
          isBusy={isBusy}
          disabled={values.url.trim() === '' || values.events.length === 0}
        >
          {submitLabel}
        </Button>
      </div>
    </form>
  );
}

interface ChoiceProps {
  label: string;
  isChosen: boolean;
  isDisabled?: boolean;
  onChange: (isChosen: boolean) => void;
}

function Choice({ label, isChosen, isDisabled = false, onChange }: ChoiceProps) {
  return (
    <label className={styles.check}>
      <input
        type="checkbox"
        checked={isChosen}
        disabled={isDisabled}
        onChange={(event) => onChange(event.target.checked)}
      />
      {label}
    </label>
  );
}

interface CreateWebhookDialogProps {
  isOpen: boolean;
  onClose: () => void;
  onCreated: (secret: string) => void;
}

export function CreateWebhookDialog({ isOpen, onClose, onCreated }: CreateWebhookDialogProps) {
  return (
    <Dialog title="Create a webhook" isOpen={isOpen} onClose={onClose}>
      <WebhookForm
        initial={{ url: '', description: '', events: ['job.ended'] }}
        submitLabel="Create"
        onClose={onClose}
        onSubmit={async (body) => onCreated((await bursar.api.createWebhook({ body })).secret)}
      />
    </Dialog>
  );
}
