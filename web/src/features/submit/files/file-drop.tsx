import { type ReactNode, useEffect, useEffectEvent, useRef, useState } from 'react';
import { Button } from '../../../ui/button.tsx';
import { toast } from '../../../ui/toast.tsx';
import styles from './files.module.css';
import { readDrop, readFileList } from './read-selection.ts';
import type { Selection } from './selection.ts';

interface FileDropProps {
  onSelect: (selection: Selection | null) => void;
  hasFiles: boolean;
  isDisabled: boolean;
  /** Shown instead of the invitation to drop files, if there are some. */
  children?: ReactNode;
}

/** Takes a folder or a zip by drop, or by the buttons. */
export function FileDrop({ onSelect, hasFiles, isDisabled, children }: FileDropProps) {
  const [isOver, setOver] = useState(false);
  const read = async (selection: Promise<Selection | null>) => {
    try {
      const found = await selection;
      if (found !== null) onSelect(found);
    } catch (error) {
      toast.fail('The files could not be read', error);
    }
  };
  const onDrop = useEffectEvent((event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    if (!isDisabled && event.dataTransfer !== null) void read(readDrop(event.dataTransfer));
  });

  // The whole page takes the drop: a browser would otherwise leave the page and open a file that misses the area.
  useEffect(() => {
    const onOver = (event: DragEvent) => {
      event.preventDefault();
      setOver(true);
    };
    const onLeave = (event: DragEvent) => event.relatedTarget === null && setOver(false);
    const drop = (event: DragEvent) => onDrop(event);
    window.addEventListener('dragover', onOver);
    window.addEventListener('dragleave', onLeave);
    window.addEventListener('drop', drop);
    return () => {
      window.removeEventListener('dragover', onOver);
      window.removeEventListener('dragleave', onLeave);
      window.removeEventListener('drop', drop);
    };
  }, []);

  return (
    <div className={styles.drop} data-over={isOver}>
      {children ?? (
        <p className={styles.invitation}>
          <strong>Drop a folder or a zip here</strong>
          <span className="muted">A folder is zipped in your browser. Nothing is sent before you submit.</span>
        </p>
      )}
      <div className={styles.choices}>
        <FileButton
          label="Choose a folder"
          isFolder
          isDisabled={isDisabled}
          onFiles={(files) => read(readFileList(files))}
        />
        <FileButton label="Choose a zip" isDisabled={isDisabled} onFiles={(files) => read(readFileList(files))} />
        {hasFiles && (
          <Button variant="quiet" disabled={isDisabled} onClick={() => onSelect(null)}>
            Remove the files
          </Button>
        )}
      </div>
    </div>
  );
}

interface FileButtonProps {
  label: string;
  isFolder?: boolean;
  isDisabled: boolean;
  onFiles: (files: File[]) => void;
}

function FileButton({ label, isFolder = false, isDisabled, onFiles }: FileButtonProps) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <Button disabled={isDisabled} onClick={() => input.current?.click()}>
        {label}
      </Button>
      <input
        ref={input}
        type="file"
        hidden
        aria-label={label}
        {...(isFolder ? { webkitdirectory: '' } : { accept: '.zip,application/zip' })}
        onChange={({ currentTarget }) => {
          onFiles([...(currentTarget.files ?? [])]);
          // The same files can be chosen again after they have changed.
          currentTarget.value = '';
        }}
      />
    </>
  );
}
