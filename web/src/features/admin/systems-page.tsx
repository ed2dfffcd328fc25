import type { System } from '@bursar/client';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { bursar } from '../../client/bursar.ts';
import { keys } from '../../client/queries.ts';
import { Badge, type Tone } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Card, DescriptionList, PageHeader } from '../../ui/card.tsx';
import { formatNumber } from '../../ui/format.ts';
import { Link } from '../../ui/link.tsx';
import { QueryView, SkeletonLines } from '../../ui/states.tsx';
import { Time } from '../../ui/time.tsx';
import { toast } from '../../ui/toast.tsx';
import { ActionDialog } from './action-dialog.tsx';
import { adminKeys, adminSystemsQuery } from './queries.ts';
import { usePermissions } from './use-permissions.ts';

const statusTones: Record<System['status'], Tone> = { up: 'good', degraded: 'warning', down: 'bad' };

/** Health and queue of every system, and its pause. */
export function AdminSystemsPage() {
  const systems = useQuery(adminSystemsQuery);
  return (
    <>
      <PageHeader
        title="System control"
        description="A paused system accepts no submissions. Its submitted jobs continue."
      />
      <QueryView query={systems} loading={<SkeletonLines count={8} />}>
        {(list) => (
          <div className="grid">
            {list.map((system) => (
              <SystemCard key={system.hpc} system={system} />
            ))}
          </div>
        )}
      </QueryView>
    </>
  );
}

function SystemCard({ system }: { system: System }) {
  const mayPause = usePermissions()('systems.pause');
  const [isAsking, setAsking] = useState(false);
  const isPaused = system.paused_at !== null;
  return (
    <Card
      title={system.hpc}
      actions={
        <>
          <Badge tone={statusTones[system.status]}>{system.status}</Badge>
          {isPaused && <Badge tone="warning">paused</Badge>}
        </>
      }
    >
      <div className="stack">
        <DescriptionList
          items={[
            ['Health', system.detail],
            ['Since', <Time key="since" value={system.status_since} />],
            ['Queue', `${formatNumber(system.queued_jobs)} queued · ${formatNumber(system.running_jobs)} running`],
            ['Submissions', <Submissions key="submissions" system={system} />],
          ]}
        />
        <div className="row">
          {mayPause && (
            <Button variant={isPaused ? 'primary' : 'secondary'} onClick={() => setAsking(true)}>
              {isPaused ? 'Resume' : 'Pause'} {system.hpc}
            </Button>
          )}
          <Link to="/admin/jobs" search={{ hpc: system.hpc, state: 'active' }}>
            Unfinished jobs
          </Link>
        </div>
      </div>
      {isAsking && <PauseDialog system={system} onClose={() => setAsking(false)} />}
    </Card>
  );
}

function Submissions({ system: { paused_at: pausedAt, pause_reason: reason } }: { system: System }) {
  if (pausedAt === null) return 'accepted';
  return (
    <>
      paused since <Time value={pausedAt} />: {reason}
    </>
  );
}

function PauseDialog({ system: { hpc, paused_at: pausedAt }, onClose }: { system: System; onClose: () => void }) {
  const queryClient = useQueryClient();
  const isPaused = pausedAt !== null;
  const submit = async (reason: string, key: string) => {
    const request = { path: { hpc }, headers: { 'Idempotency-Key': key }, body: { reason } };
    await (isPaused ? bursar.api.resumeSystem(request) : bursar.api.pauseSystem(request));
    await queryClient.invalidateQueries({ queryKey: adminKeys.systems });
    void queryClient.invalidateQueries({ queryKey: keys.systems });
    toast.show(`${hpc} is ${isPaused ? 'resumed' : 'paused'}`);
  };
  return (
    <ActionDialog
      title={isPaused ? `Resume ${hpc}` : `Pause ${hpc}`}
      submitLabel={isPaused ? 'Resume' : 'Pause'}
      onClose={onClose}
      onSubmit={submit}
    >
      <p>
        {isPaused
          ? 'The system accepts submissions again.'
          : 'New submissions are refused with your reason, which all users see. Submitted jobs continue.'}
      </p>
    </ActionDialog>
  );
}
