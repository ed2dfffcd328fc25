import { type ReactNode, useState } from 'react';
import { Button } from './button.tsx';
import { Dialog } from './dialog.tsx';
import { TextField } from './field.tsx';
import { ErrorMessage } from './states.tsx';

interface ConfirmDialogProps {
  title: string;
  children: ReactNode;
  confirmLabel: string;
  isDangerous?: boolean;
  /** Asks for a reason, which is required and passed to `onConfirm`. */
  asksReason?: boolean;
  isOpen: boolean;
  onClose: () => void;
  /** The dialog closes when it has succeeded, and shows the error otherwise. */
  onConfirm: (reason: string) => Promise<unknown>;
}

/** Asks before an action that cannot be undone. */
export function ConfirmDialog(props: ConfirmDialogProps) {
  const { title, children, confirmLabel, isDangerous = false, asksReason = false, isOpen, onClose, onConfirm } = props;
  const [reason, setReason] = useState('');
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();

  const close = () => {
    setReason('');
    setError(undefined);
    onClose();
  };
  const confirm = async () => {
    setBusy(true);
    try {
      await onConfirm(reason.trim());
      close();
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };

  return (
    <Dialog
      title={title}
      isOpen={isOpen}
      onClose={close}
      actions={
        <>
          <Button onClick={close}>Back</Button>
          <Button
            variant={isDangerous ? 'danger' : 'primary'}
            isBusy={isBusy}
            disabled={asksReason && reason.trim() === ''}
            onClick={() => void confirm()}
          >
            {confirmLabel}
          </Button>
        </>
      }
    >
      <div className="stack">
        <div>{children}</div>
        {asksReason && <TextField label="Reason" value={reason} onChange={(event) => setReason(event.target.value)} />}
        {error !== undefined && <ErrorMessage error={error} />}
      </div>
    </Dialog>
  );
}
