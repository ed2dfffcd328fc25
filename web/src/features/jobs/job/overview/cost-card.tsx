import type { System, Timeline } from '@bursar/client';
import { formatBytes } from '../../../../../../src/domain/format-amount.ts';
import { formatAmount } from '../../../../shared/amount.ts';
import { Card, DescriptionList } from '../../../../ui/card.tsx';

/** The amounts of the ledger for this job, with the rule that decided the charge. */
export function CostCard({ timeline, charge }: { timeline: Timeline; charge: System['charge'] | undefined }) {
  const { held_seconds: held, charged_seconds: charged, refunded_seconds: refunded, space_bytes: space } = timeline;
  const amount = (seconds: number) => formatAmount('time', seconds, charge);
  const released = charged === null ? 0 : Math.max(0, held - charged - refunded);
  return (
    <Card title="Cost">
      <div className="stack">
        <DescriptionList
          items={[
            [charged === null ? 'Held' : 'Held until the end', amount(held)],
            ...(charged === null ? [] : [['Used', amount(charged + refunded)] as const]),
            ...(charged === null ? [] : [['Given back', amount(released)] as const]),
            ...(refunded === 0 ? [] : [['Refunded', amount(refunded)] as const]),
            ['Charged', charged === null ? 'nothing yet' : <strong key="charged">{amount(charged)}</strong>],
            ...(space === null ? [] : [['Space of the files', formatBytes(space)] as const]),
          ]}
        />
        <p className="muted">{chargeRule(timeline, charge)}</p>
      </div>
    </Card>
  );
}

const units = {
  core: 'the time that it ran, times its cores',
  node: 'the time that it ran, times its nodes',
  wall: 'the time that it ran',
} as const;

/** Says in plain words why the job was charged, or not. */
function chargeRule(
  { entries, charged_seconds: charged, refunded_seconds: refunded }: Timeline,
  charge: System['charge'] = 'core',
): string {
  const rule = entries.find(({ type }) => type === 'job.ended')?.charge_rule;
  if (charged === null || rule == null) {
    return `The most that the job can cost is held. At its end it is charged for ${units[charge]}, and the rest is given back.`;
  }
  if (rule.startsWith('used')) {
    const sentence = `The job is charged for ${units[charge]}, and never for more than its granted runtime.`;
    return refunded === 0 ? sentence : `${sentence} A part was refunded later.`;
  }
  if (rule.startsWith('never ran')) return 'Nothing is charged, because the job never ran.';
  return `Nothing is charged, because the job did not end by itself: ${rule}.`;
}
