import { PageHeader } from '../../../ui/card.tsx';
import { Skeleton } from '../../../ui/states.tsx';

/** Takes the place of a job that is loading. */
export function JobSkeleton() {
  return (
    <div role="status" aria-label="Loading the job">
      <PageHeader title="Job" heading={<Skeleton width="14rem" height="1.9rem" />} />
      <div className="stack">
        <Skeleton height="1.5rem" width="60%" />
        <Skeleton height="2.6rem" />
        <Skeleton height="20rem" />
      </div>
    </div>
  );
}
