import { lazy, Suspense, useEffect, useState } from 'react';
import type { DialogProps } from './dialog-window.tsx';

const DialogWindow = lazy(() => import('./dialog-window.tsx'));

/** A window above the page. Its code is loaded when the first one opens: most visits need none. */
export function Dialog(props: DialogProps) {
  const [wasOpened, setOpened] = useState(props.isOpen);
  useEffect(() => {
    if (props.isOpen) setOpened(true);
  }, [props.isOpen]);
  if (!wasOpened && !props.isOpen) return null;
  return (
    <Suspense fallback={null}>
      <DialogWindow {...props} />
    </Suspense>
  );
}
