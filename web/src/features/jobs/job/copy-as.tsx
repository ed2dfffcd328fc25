import type { Timeline } from '@bursar/client';
import { useState } from 'react';
import { Button } from '../../../ui/button.tsx';
import { CopyButton } from '../../../ui/copy-button.tsx';
import { Dialog } from '../../../ui/dialog.tsx';
import { Preformatted } from '../../../ui/preformatted.tsx';
import styles from './copy-as.module.css';
import { submissionCommands } from './submission-commands.ts';

/** Shows how to submit the same job from a terminal or a program. */
export function CopyAs({ timeline, hpc }: { timeline: Timeline; hpc: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button onClick={() => setOpen(true)}>Copy as…</Button>
      <Dialog
        title="Submit the same job elsewhere"
        isOpen={isOpen}
        onClose={() => setOpen(false)}
        actions={<Button onClick={() => setOpen(false)}>Close</Button>}
      >
        <CommandList timeline={timeline} hpc={hpc} />
      </Dialog>
    </>
  );
}

function CommandList({ timeline, hpc }: { timeline: Timeline; hpc: string }) {
  const { commandLine, curl, python } = submissionCommands(timeline, { url: location.origin, hpc });
  return (
    <div className="stack">
      <p className="muted">
        Put the files of the job into <code>folder</code>, or into <code>job.zip</code>. curl and Python read your token
        from the variable <code>BURSAR_TOKEN</code>.
      </p>
      <Command title="Command line" text={commandLine} />
      <Command title="curl" text={curl} />
      <Command title="Python" text={python} />
    </div>
  );
}

function Command({ title, text }: { title: string; text: string }) {
  return (
    <section aria-label={title}>
      <div className={styles.header}>
        <h3>{title}</h3>
        <CopyButton text={text} label={`Copy for ${title === 'Command line' ? 'the command line' : title}`} />
      </div>
      <Preformatted text={text} maxHeight="14rem" />
    </section>
  );
}
