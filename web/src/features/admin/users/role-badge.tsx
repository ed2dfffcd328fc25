import { Badge, type Tone } from '../../../ui/badge.tsx';
import { capitalise } from '../../../ui/format.ts';
import type { Role } from './users-search.ts';

const tones: Record<Role, Tone> = { user: 'neutral', auditor: 'info', operator: 'info', administrator: 'warning' };

/** The role of a user on the whole site. */
export function RoleBadge({ role }: { role: Role }) {
  return <Badge tone={tones[role]}>{capitalise(role)}</Badge>;
}
