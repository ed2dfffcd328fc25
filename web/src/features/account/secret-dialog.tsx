import type { ReactNode } from 'react';
import { Button } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { TextField } from '../../ui/field.tsx';

interface SecretDialogProps {
  title: string;
  label: string;
  /** The dialog is open while there is one. */
  secret: string | undefined;
  onClose: () => void;
  children: ReactNode;
}

/** Shows a secret that no later response contains. */
export function SecretDialog({ title, label, secret, onClose, children }: SecretDialogProps) {
  return (
    <Dialog
      title={title}
      isOpen={secret !== undefined}
      onClose={onClose}
      actions={
        <>
          <CopyButton text={secret ?? ''} />
          <Button variant="primary" onClick={onClose}>
            I have stored it
          </Button>
        </>
      }
    >
      <div className="stack">
        <p>
          <strong>This is the only time that it is shown.</strong> {children}
        </p>
        <TextField label={label} value={secret ?? ''} readOnly onFocus={(event) => event.target.select()} />
      </div>
    </Dialog>
  );
}
