import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { meQuery } from '../../client/queries.ts';
import { PageHeader } from '../../ui/card.tsx';
import { Link } from '../../ui/link.tsx';
import { QueryView } from '../../ui/states.tsx';
import tabStyles from '../../ui/tabs.module.css';
import type { AccountSearch } from './account-search.ts';
import { NotificationSettings } from './notification-settings.tsx';
import { Profile } from './profile.tsx';
import { SessionList } from './session-list.tsx';
import { TokenList } from './token-list.tsx';
import { WebhookList } from './webhook-list.tsx';

const tabs: readonly { tab: AccountSearch['tab']; title: string }[] = [
  { tab: undefined, title: 'Profile' },
  { tab: 'tokens', title: 'Tokens' },
  { tab: 'sessions', title: 'Sessions' },
  { tab: 'webhooks', title: 'Webhooks' },
  { tab: 'notifications', title: 'Notifications' },
];

const route = getRouteApi('/account');

export function AccountPage() {
  const { tab } = route.useSearch();
  const me = useQuery(meQuery);
  const current = tabs.find((each) => each.tab === tab);
  return (
    <>
      <PageHeader title={tab === undefined ? 'Account' : `${current?.title} · Account`} heading="Account" />
      <nav className={tabStyles.tabs} aria-label="Account">
        {tabs.map((each) => (
          <Link key={each.title} to="/account" search={{ tab: each.tab }}>
            {each.title}
          </Link>
        ))}
      </nav>
      <QueryView query={me}>
        {(data) => {
          switch (tab) {
            case undefined:
              return <Profile me={data} />;
            case 'tokens':
              return <TokenList me={data} />;
            case 'sessions':
              return <SessionList />;
            case 'webhooks':
              return <WebhookList />;
            case 'notifications':
              return <NotificationSettings />;
            default:
              return tab satisfies never;
          }
        }}
      </QueryView>
    </>
  );
}
