import { useQuery } from '@tanstack/react-query';
import { signInOptionsQuery } from '../client/queries.ts';
import { buttonClass } from '../ui/button.tsx';
import { Card } from '../ui/card.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { QueryView } from '../ui/states.tsx';
import styles from './session.module.css';

/** Shown to somebody who is not signed in. After the sign-in the same page opens. */
export function SignIn() {
  const options = useQuery(signInOptionsQuery);
  const returnTo = location.pathname + location.search;
  return (
    <main className={styles.signIn}>
      <title>Sign in · Bursar</title>
      <h1>Sign in to Bursar</h1>
      <p className="muted">Submit jobs to the HPC systems of this site, follow them, and see what they cost.</p>
      <QueryView query={options}>
        {({ issuers }) => (
          <Card>
            <div className="stack">
              {issuers.map(({ name, issuer }) => (
                <a
                  key={issuer}
                  className={buttonClass('primary')}
                  href={`/sign-in/start/?${new URLSearchParams({ issuer, return_to: returnTo })}`}
                >
                  Sign in with {name}
                </a>
              ))}
              <p className="muted">
                {issuers.length === 0 ? 'Open' : 'Or open'} the sign-in link that the operators of this server gave you.
                It works once, for 10 minutes.
              </p>
            </div>
          </Card>
        )}
      </QueryView>
    </main>
  );
}

/** The session has ended while the page was open. It is checked again when the user comes back to this tab. */
export function SessionEnded({ user }: { user: string }) {
  return (
    <Dialog
      title="Your session has ended"
      isOpen
      onClose={() => undefined}
      actions={
        <a className={buttonClass('primary')} href="/sign-in/" target="_blank" rel="noreferrer">
          Sign in in a new tab
        </a>
      }
    >
      <p>
        Sign in again as user {user}, and come back to this tab: it goes on where you were, and what you typed is still
        here.
      </p>
    </Dialog>
  );
}
