import { useState } from 'react';
import {
  canNotify,
  type NotificationChoice,
  storeNotificationChoice,
  useNotificationChoice,
} from '../../client/notification-choice.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import styles from './account.module.css';

const choiceTexts: Record<NotificationChoice, string> = {
  none: 'No job',
  failed: 'A job that failed',
  all: 'Every job',
};

/** Notifications of this browser about ended jobs. The choice is kept in the browser, not on the server. */
export function NotificationSettings() {
  const choice = useNotificationChoice();
  const [permission, setPermission] = useState(() => (canNotify() ? Notification.permission : 'denied'));

  const choose = async (next: NotificationChoice) => {
    // Browsers ask the user only as the answer to a click.
    if (next !== 'none' && permission === 'default') setPermission(await Notification.requestPermission());
    storeNotificationChoice(next);
  };
  return (
    <Card title="Notifications of this browser">
      <div className="stack">
        <p className="muted">
          This browser tells you when a job ends, as long as Bursar is open in one of its tabs. For anything else, use a
          webhook.
        </p>
        {canNotify() ? (
          <fieldset className={styles.choices}>
            <legend>Notify me of the end of</legend>
            {Object.entries(choiceTexts).map(([value, text]) => (
              <label key={value} className={styles.check}>
                <input
                  type="radio"
                  name="notifications"
                  checked={choice === value}
                  onChange={() => void choose(value as NotificationChoice)}
                />
                {text}
              </label>
            ))}
          </fieldset>
        ) : (
          <p role="status">
            Browsers show notifications only for pages with TLS. The address of this page does not begin with https.
          </p>
        )}
        {canNotify() && choice !== 'none' && <PermissionNotice permission={permission} />}
      </div>
    </Card>
  );
}

function PermissionNotice({ permission }: { permission: NotificationPermission }) {
  if (permission === 'granted') {
    const showTest = () => new Notification('Bursar', { body: 'Notifications work.', tag: 'test' });
    return (
      <div>
        <Button onClick={showTest}>Show one now</Button>
      </div>
    );
  }
  return (
    <p role="alert">
      {permission === 'denied'
        ? 'This browser refuses notifications of this site. Allow them in the settings of the site, beside its address.'
        : 'This browser has not been allowed to show notifications. Choose again, and allow them.'}
    </p>
  );
}
