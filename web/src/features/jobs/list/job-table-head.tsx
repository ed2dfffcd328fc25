import styles from './job-list.module.css';
import type { ListRoute } from './list-route.ts';

export function JobTableHead({ route }: { route: ListRoute }) {
  return (
    <thead>
      <tr>
        <th scope="col" className={styles.select}>
          <span className="visually-hidden">Selected</span>
        </th>
        <th scope="col">Job</th>
        {route === '/admin/jobs' && (
          <th scope="col" className={styles.user}>
            User
          </th>
        )}
        <th scope="col" className={styles.stage}>
          Stage
        </th>
        <th scope="col" className={styles.timeCell}>
          Time
        </th>
        <th scope="col" className={`${styles.cost} number`}>
          Cost
        </th>
        <th scope="col" className={styles.submitted}>
          Submitted
        </th>
      </tr>
    </thead>
  );
}
