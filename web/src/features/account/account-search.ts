const tabs = ['sessions', 'webhooks', 'notifications'] as const;

/** The tab of the account page. The tokens are shown first. */
export interface AccountSearch {
  tab?: (typeof tabs)[number] | undefined;
}

export function validateAccountSearch(query: Record<string, unknown>): AccountSearch {
  return { tab: tabs.find((tab) => tab === query.tab) };
}
