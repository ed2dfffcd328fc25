import { PageHeader } from '../../ui/card.tsx';

export function ProjectPage() {
  return <PageHeader title="Project" />;
}
