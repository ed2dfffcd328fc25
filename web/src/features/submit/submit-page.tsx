import { PageHeader } from '../../ui/card.tsx';

export function SubmitPage() {
  return <PageHeader title="Submit a job" />;
}
