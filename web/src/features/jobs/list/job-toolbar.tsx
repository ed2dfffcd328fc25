import { Button } from '../../../ui/button.tsx';
import { formatCount } from '../../../ui/format.ts';
import type { BulkKind } from './bulk-plan.ts';
import styles from './job-toolbar.module.css';
import type { Selection } from './use-selection.ts';

interface JobToolbarProps {
  rowCount: number;
  selection: Selection;
  /** Jobs that are not shown yet, because the mouse is over the list. */
  newCount: number;
  onShowNew: () => void;
  isLoading: boolean;
  actions: readonly BulkKind[];
  onAction: (kind: BulkKind) => void;
}

/** The line above the list: it selects all rows, and offers the actions on the selected ones. Its height never changes. */
export function JobToolbar(props: JobToolbarProps) {
  const { rowCount, selection, newCount, onShowNew, isLoading, actions, onAction } = props;
  const count = selection.selected.size;
  return (
    <div className={styles.toolbar} role="toolbar" aria-label="Selected jobs">
      <label className={styles.selectAll}>
        <input
          type="checkbox"
          checked={count > 0 && count === rowCount}
          ref={(box) => {
            if (box !== null) box.indeterminate = count > 0 && count < rowCount;
          }}
          onChange={(event) => selection.changeAll(event.target.checked)}
        />
        {count === 0 ? 'Select all' : `${count} selected`}
      </label>
      {count > 0 && actions.includes('cancel') && <Button onClick={() => onAction('cancel')}>Cancel…</Button>}
      {count > 0 && actions.includes('delete') && <Button onClick={() => onAction('delete')}>Delete…</Button>}
      <span className={styles.news} role="status">
        {isLoading && 'Loading…'}
        {newCount > 0 && <Button onClick={onShowNew}>Show {formatCount(newCount, 'new job')}</Button>}
      </span>
    </div>
  );
}
