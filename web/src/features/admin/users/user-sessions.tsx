import type { Session } from '@bursar/client';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { bursar } from '../../../client/bursar.ts';
import { Button } from '../../../ui/button.tsx';
import { Card } from '../../../ui/card.tsx';
import { ConfirmDialog } from '../../../ui/confirm-dialog.tsx';
import { QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { Table } from '../../../ui/table.tsx';
import { Time } from '../../../ui/time.tsx';
import { toast } from '../../../ui/toast.tsx';
import styles from '../admin.module.css';
import { userSessionsQuery } from '../queries.ts';
import { usePermissions } from '../use-permissions.ts';

/** The sessions of a user's browsers. The API ends all of them together. */
export function UserSessions({ userId }: { userId: string }) {
  const sessions = useQuery(userSessionsQuery(userId));
  const queryClient = useQueryClient();
  const mayEnd = usePermissions()('sessions.write');
  const [isAsking, setAsking] = useState(false);

  const end = async () => {
    await bursar.api.endSessionsOfUser({ path: { user_id: userId } });
    await queryClient.invalidateQueries({ queryKey: userSessionsQuery(userId).queryKey });
    toast.show('All sessions have ended');
  };

  return (
    <Card
      title="Sessions"
      actions={
        mayEnd && (sessions.data?.length ?? 0) > 0 && <Button onClick={() => setAsking(true)}>End all sessions</Button>
      }
    >
      <QueryView query={sessions} loading={<SkeletonLines count={3} />}>
        {(list) =>
          list.length === 0 ? (
            <p className="muted">This user is signed in in no browser.</p>
          ) : (
            <SessionTable sessions={list} />
          )
        }
      </QueryView>
      <ConfirmDialog
        title="End all sessions"
        confirmLabel="End all sessions"
        isDangerous
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        onConfirm={end}
      >
        The user is signed out in every browser at once, and can sign in again. Tokens stay valid.
      </ConfirmDialog>
    </Card>
  );
}

function SessionTable({ sessions }: { sessions: readonly Session[] }) {
  return (
    <Table label="List of sessions">
      <thead>
        <tr>
          <th scope="col">Signed in</th>
          <th scope="col">Last used</th>
          <th scope="col">Ends</th>
          <th scope="col">Address</th>
          <th scope="col">Browser</th>
        </tr>
      </thead>
      <tbody>
        {sessions.map((session) => (
          <tr key={session.id}>
            <td>
              <Time value={session.created_at} />
              <span className={styles.cellNote}>
                {session.issuer === null ? 'by a sign-in link' : `at ${session.issuer}`}
                {session.current ? ' · this session' : ''}
              </span>
            </td>
            <td>
              <Time value={session.last_used_at} form="relative" />
            </td>
            <td>
              <Time value={session.expires_at} />
            </td>
            <td>{session.address}</td>
            <td className={styles.longText} title={session.user_agent}>
              {session.user_agent}
            </td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}
