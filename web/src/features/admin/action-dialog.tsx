import { useQueryClient } from '@tanstack/react-query';
import { type ReactNode, type SubmitEvent, useId, useState } from 'react';
import { isTransient } from '../../client/bursar.ts';
import { createIdempotencyKey } from '../../client/idempotency-key.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { TextField } from '../../ui/field.tsx';
import { ErrorMessage } from '../../ui/states.tsx';

interface ActionDialogProps {
  title: string;
  /** The fields, and the preview of the effect. */
  children: ReactNode;
  submitLabel: string;
  isDangerous?: boolean;
  /** Whether the fields hold something that can be sent. */
  canSubmit?: boolean;
  onClose: () => void;
  /** Sends the action. A repetition with the same key applies once. The dialog stays open if it fails. */
  onSubmit: (reason: string, key: string) => Promise<unknown>;
}

/** The server asks for three visible characters. */
const isReason = (text: string) => text.replaceAll(/\s/g, '').length >= 3;

/**
 * A form for an action that is recorded with its reason. Mount it when it opens: each opening has one Idempotency-Key, so that
 * a second click, or a repetition after a lost response, applies once.
 */
export function ActionDialog(props: ActionDialogProps) {
  const { title, children, submitLabel, isDangerous = false, canSubmit = true, onClose, onSubmit } = props;
  const queryClient = useQueryClient();
  const formId = useId();
  const [key] = useState(createIdempotencyKey);
  const [reason, setReason] = useState('');
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();

  /** The next opening has another key, so this one stays until the server has answered. */
  const close = () => {
    if (!isBusy) onClose();
  };
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (isBusy || !canSubmit || !isReason(reason)) return;
    setBusy(true);
    setError(undefined);
    try {
      await onSubmit(reason.trim(), key);
      onClose();
    } catch (failure) {
      setError(failure);
      // The change may have been applied: the figures on the page show it.
      if (isTransient(failure)) void queryClient.invalidateQueries();
    } finally {
      setBusy(false);
    }
  };

  return (
    <Dialog
      title={title}
      isOpen
      onClose={close}
      actions={
        <>
          <Button disabled={isBusy} onClick={onClose}>
            Back
          </Button>
          <Button
            type="submit"
            form={formId}
            variant={isDangerous ? 'danger' : 'primary'}
            isBusy={isBusy}
            disabled={!canSubmit || !isReason(reason)}
          >
            {submitLabel}
          </Button>
        </>
      }
    >
      <form id={formId} className="stack" onSubmit={(event) => void submit(event)}>
        {children}
        <TextField
          label="Reason"
          hint="It is recorded permanently, with your name."
          maxLength={500}
          autoComplete="off"
          value={reason}
          onChange={(event) => setReason(event.target.value)}
        />
        {error !== undefined && <ErrorMessage error={error} />}
        {error !== undefined && isTransient(error) && (
          <p>Send it again from here: it is applied once, even if the server has received it.</p>
        )}
      </form>
    </Dialog>
  );
}
