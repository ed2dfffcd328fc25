import type { Timeline } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { systemsQuery } from '../../../../client/queries.ts';
import { Badge } from '../../../../ui/badge.tsx';
import { Card, DescriptionList } from '../../../../ui/card.tsx';
import { formatCount, formatDuration } from '../../../../ui/format.ts';
import type { JobSource } from '../job-source.ts';
import { CostCard } from './cost-card.tsx';
import { FailureCard } from './failure-card.tsx';
import styles from './overview.module.css';
import { RuntimeCard } from './runtime-card.tsx';
import { TimelineCard } from './timeline-card.tsx';

/** The history of the job, its cost, and its request. */
export function Overview({ source, timeline }: { source: JobSource; timeline: Timeline }) {
  const { data: systems } = useQuery(systemsQuery);
  const charge = systems?.find(({ hpc }) => hpc === source.path.hpc)?.charge;
  return (
    <div className="stack">
      {timeline.job.failed && <FailureCard source={source} timeline={timeline} />}
      <div className={styles.columns}>
        <TimelineCard timeline={timeline} charge={charge} />
        <div className="stack">
          <RuntimeCard timeline={timeline} />
          <CostCard timeline={timeline} charge={charge} />
          <RequestCard timeline={timeline} />
        </div>
      </div>
    </div>
  );
}

function RequestCard({ timeline: { request, tags, entries } }: { timeline: Timeline }) {
  const { command, tool, nodes, cores_per_node: cores, params } = request;
  const engineId = entries.find(({ engine_id: id }) => id !== null)?.engine_id;
  return (
    <Card title="Request">
      <DescriptionList
        items={[
          command === null ? ['Tool', tool] : ['Command', <code key="command">{command}</code>],
          ...Object.entries(params ?? {}).map(
            ([name, value]) => [name, <code key={name}>{[value].flat().join(' ')}</code>] as const,
          ),
          ['Size', `${formatCount(nodes, 'node')} × ${formatCount(cores, 'core')}`],
          ['Runtime', `at most ${formatDuration(request.runtime * 3600)}`],
          ...(tags.length === 0 ? [] : [['Tags', <Tags key="tags" tags={tags} />] as const]),
          ...(engineId ? [["The system's id", <code key="id">{engineId}</code>] as const] : []),
        ]}
      />
    </Card>
  );
}

function Tags({ tags }: { tags: readonly string[] }) {
  return (
    <span className="row">
      {tags.map((tag) => (
        <Badge key={tag}>{tag}</Badge>
      ))}
    </span>
  );
}
