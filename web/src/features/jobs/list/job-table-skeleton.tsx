import { Skeleton } from '../../../ui/states.tsx';
import { Table } from '../../../ui/table.tsx';
import styles from './job-list.module.css';
import { JobTableHead } from './job-table-head.tsx';
import toolbarStyles from './job-toolbar.module.css';
import type { ListRoute } from './list-route.ts';

/** Takes the place of the rows while they are loading for the first time. */
export function JobTableSkeleton({ route }: { route: ListRoute }) {
  return (
    <div role="status" aria-label="Loading jobs">
      <div className={toolbarStyles.toolbar} />
      <Table label="Jobs" className={styles.table ?? ''}>
        <JobTableHead route={route} />
        <tbody>
          {Array.from({ length: 10 }, (_, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: all rows are alike
            <tr key={index}>
              <td className={styles.skeleton} colSpan={route === '/jobs' ? 6 : 7}>
                <Skeleton height="2.75rem" />
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
    </div>
  );
}
