import { PageHeader } from '../../ui/card.tsx';

export function ProjectsPage() {
  return <PageHeader title="Projects" />;
}
