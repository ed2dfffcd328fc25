import { Toast } from '@base-ui/react/toast';
import { useEffect } from 'react';
import { Button } from './button.tsx';
import styles from './toast.module.css';
import { toastManager } from './toast-manager.ts';

export default function ToastViewport({ onMount }: { onMount: () => void }) {
  useEffect(() => {
    onMount();
  }, [onMount]);
  return (
    <Toast.Provider toastManager={toastManager}>
      <Toast.Portal>
        <Toast.Viewport className={styles.viewport}>
          <ToastList />
        </Toast.Viewport>
      </Toast.Portal>
    </Toast.Provider>
  );
}

function ToastList() {
  const { toasts } = Toast.useToastManager();
  return toasts.map((each) => (
    <Toast.Root key={each.id} toast={each} className={styles.toast}>
      <Toast.Content>
        <Toast.Title render={<strong />} />
        <Toast.Description />
      </Toast.Content>
      <Toast.Close render={<Button variant="quiet" aria-label="Close this message" />}>✕</Toast.Close>
    </Toast.Root>
  ));
}
