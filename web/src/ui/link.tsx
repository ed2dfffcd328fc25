import { type LinkComponent, Link as RouterLink } from '@tanstack/react-router';

/**
 * A link to a page. It has `aria-current` on precisely the page that it leads to. The router's own link has it on all pages
 * below that one, and with all filters: it would mark the way back to a list, and the link that removes a filter.
 */
export const Link = ((props) => <RouterLink activeOptions={{ exact: true }} {...props} />) as LinkComponent<'a'>;
