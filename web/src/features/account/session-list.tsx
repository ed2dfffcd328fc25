import type { Session } from '@bursar/client';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { bursar } from '../../client/bursar.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { QueryView } from '../../ui/states.tsx';
import { HiddenColumnHeader, Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { toast } from '../../ui/toast.tsx';
import { describeBrowser } from './describe-browser.ts';
import { accountKeys, sessionsQuery } from './queries.ts';

/** The browsers in which the user is signed in. */
export function SessionList() {
  const sessions = useQuery(sessionsQuery);
  const queryClient = useQueryClient();
  const [isEndingOthers, setEndingOthers] = useState(false);
  const [ended, setEnded] = useState<Session>();

  const refresh = () => queryClient.invalidateQueries({ queryKey: accountKeys.sessions });
  const end = async () => {
    if (ended === undefined) return;
    await bursar.api.endSession({ path: { session_id: ended.id } });
    toast.show('The session is ended');
    await refresh();
  };
  const endOthers = async () => {
    const { length } = await bursar.api.endOtherSessions();
    toast.show(`${length} ${length === 1 ? 'session is' : 'sessions are'} ended`);
    await refresh();
  };
  const hasOthers = sessions.data?.some(({ current }) => !current) ?? false;

  return (
    <Card
      title="Sessions"
      actions={
        <Button variant="danger" disabled={!hasOthers} onClick={() => setEndingOthers(true)}>
          End all others
        </Button>
      }
    >
      <div className="stack">
        <p className="muted">The browsers in which you are signed in. End those that you do not know.</p>
        <QueryView query={sessions}>{(list) => <SessionTable sessions={list} onEnd={setEnded} />}</QueryView>
      </div>
      <ConfirmDialog
        title="End this session?"
        confirmLabel="End the session"
        isDangerous
        isOpen={ended !== undefined}
        onClose={() => setEnded(undefined)}
        onConfirm={end}
      >
        {ended !== undefined && describeBrowser(ended.user_agent)} must sign in again.
      </ConfirmDialog>
      <ConfirmDialog
        title="End all other sessions?"
        confirmLabel="End them"
        isDangerous
        isOpen={isEndingOthers}
        onClose={() => setEndingOthers(false)}
        onConfirm={endOthers}
      >
        You stay signed in here. Every other browser must sign in again. Tokens stay valid.
      </ConfirmDialog>
    </Card>
  );
}

function SessionTable({ sessions, onEnd }: { sessions: readonly Session[]; onEnd: (session: Session) => void }) {
  return (
    <Table label="Your sessions">
      <thead>
        <tr>
          <th scope="col">Browser</th>
          <th scope="col">Signed in</th>
          <th scope="col">From</th>
          <th scope="col">Last used</th>
          <HiddenColumnHeader>Actions</HiddenColumnHeader>
        </tr>
      </thead>
      <tbody>
        {sessions.map((session) => (
          <tr key={session.id}>
            <td title={session.user_agent}>
              {describeBrowser(session.user_agent)} {session.current && <Badge tone="info">This one</Badge>}
            </td>
            <td>
              <Time value={session.created_at} />{' '}
              <span className="muted">{session.issuer === null ? 'by a link' : `at ${session.issuer}`}</span>
            </td>
            <td>{session.address}</td>
            <td>
              <Time value={session.last_used_at} form="relative" />
            </td>
            <td>
              {!session.current && (
                <Button
                  variant="danger"
                  aria-label={`End the session of ${session.address}`}
                  onClick={() => onEnd(session)}
                >
                  End
                </Button>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}
