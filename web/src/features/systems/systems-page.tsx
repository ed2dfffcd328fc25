import { useQuery } from '@tanstack/react-query';
import { systemsQuery } from '../../client/queries.ts';
import { Button } from '../../ui/button.tsx';
import { Card, PageHeader } from '../../ui/card.tsx';
import { EmptyState, QueryView, Skeleton } from '../../ui/states.tsx';
import { ReadTime } from '../../ui/time.tsx';
import { SystemCard } from './system-card.tsx';
import styles from './systems.module.css';

/** Health, queue, limits and tools of each system. */
export function SystemsPage() {
  const systems = useQuery({ ...systemsQuery, refetchOnWindowFocus: true });
  return (
    <>
      <PageHeader
        title="Systems"
        description={<ReadTime at={systems.dataUpdatedAt} />}
        actions={
          <Button isBusy={systems.isFetching} onClick={() => void systems.refetch()}>
            Refresh
          </Button>
        }
      />
      <QueryView query={systems} loading={<Loading />}>
        {(list) =>
          list.length === 0 ? (
            <EmptyState title="No systems">The operators of this server have configured none.</EmptyState>
          ) : (
            <div className={styles.list}>
              {list.map((system) => (
                <SystemCard key={system.hpc} system={system} />
              ))}
            </div>
          )
        }
      </QueryView>
    </>
  );
}

function Loading() {
  return (
    <div className={styles.list} role="status" aria-label="Loading">
      {[1, 2].map((key) => (
        <Card key={key}>
          <Skeleton height="24rem" />
        </Card>
      ))}
    </div>
  );
}
