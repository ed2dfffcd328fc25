export const accountTabs = ['tokens', 'sessions', 'webhooks', 'notifications'] as const;

/** The tab of the account page. The profile is shown first. */
export interface AccountSearch {
  tab?: (typeof accountTabs)[number] | undefined;
}

export function validateAccountSearch(query: Record<string, unknown>): AccountSearch {
  return { tab: accountTabs.find((tab) => tab === query.tab) };
}
