import type { System } from '@bursar/client';
import { formatBytes } from '../../../../src/domain/format-amount.ts';
import { Badge, type Tone } from '../../ui/badge.tsx';
import { buttonClass } from '../../ui/button.tsx';
import { Card, DescriptionList } from '../../ui/card.tsx';
import { capitalise, formatNumber } from '../../ui/format.ts';
import { Link } from '../../ui/link.tsx';
import { Time } from '../../ui/time.tsx';
import styles from './systems.module.css';
import { ToolList } from './tool-list.tsx';

const statusTexts: Record<System['status'], [string, Tone]> = {
  up: ['Up', 'good'],
  degraded: ['Degraded', 'warning'],
  down: ['Down', 'bad'],
};

const chargeTexts: Record<System['charge'], string> = {
  core: 'by core-hours: each allocated core counts, as long as the job runs',
  node: 'by node-hours: each allocated node counts, as long as the job runs',
  wall: 'by hours: the time that the job runs, whatever it uses',
};

const policyTexts: Record<System['runtime_policy'], string> = {
  reject: 'a job that asks for more is refused',
  clamp: 'a job that asks for more gets the maximum',
};

const isolationTexts: Record<System['isolation'], string> = {
  bubblewrap: 'a job sees only its own files and those of the operating system',
  none: 'a job can read and change the files of all other jobs of this system',
};

export function SystemCard({ system }: { system: System }) {
  const [status, tone] = statusTexts[system.status];
  const isPaused = system.paused_at !== null;
  return (
    <Card
      title={
        <span className="row">
          {system.hpc} <Badge tone={tone}>{status}</Badge>
          {isPaused && <Badge tone="warning">Paused</Badge>}
        </span>
      }
      actions={
        <Link to="/submit" search={{ hpc: system.hpc }} className={buttonClass()}>
          Submit a job
        </Link>
      }
    >
      <div className="stack">
        {isPaused && (
          <p className="notice">
            <strong>No submissions</strong> since <Time value={system.paused_at} />: {system.pause_reason}
          </p>
        )}
        <p className="muted">
          {capitalise(system.detail)} ({status.toLowerCase()} since <Time value={system.status_since} />)
        </p>
        <dl className={styles.counts}>
          <Count name="Running" value={system.running_jobs} />
          <Count name="Queued" value={system.queued_jobs} />
        </dl>
        <Properties system={system} />
        {system.kind === 'tool' && <ToolList tools={system.tools} />}
      </div>
    </Card>
  );
}

function Count({ name, value }: { name: string; value: number }) {
  return (
    <div>
      <dt className="muted">{name}</dt>
      <dd>{formatNumber(value)}</dd>
    </div>
  );
}

function Properties({ system }: { system: System }) {
  const { limits, defaults, input_limits: input } = system;
  return (
    <DescriptionList
      items={[
        ['Takes', system.kind === 'batch' ? 'a command' : 'one of the tools below'],
        ['Nodes', range(limits.nodes, defaults.nodes)],
        ['Cores per node', range(limits.cores_per_node, defaults.cores_per_node)],
        ['Runtime', `${range(limits.runtime, defaults.runtime, ' h')}; ${policyTexts[system.runtime_policy]}`],
        ['Charged', chargeTexts[system.charge]],
        ['Default project', system.default_project],
        [
          'Input',
          `a zip of at most ${formatBytes(input.bytes)} and ${formatNumber(input.entries)} files; ` +
            `unpacked at most ${formatBytes(input.unpacked_bytes)} and ${formatNumber(input.ratio)} times its size`,
        ],
        [
          'Isolation',
          <>
            {system.isolation === 'none' && <Badge tone="warning">None</Badge>} {isolationTexts[system.isolation]}
          </>,
        ],
      ]}
    />
  );
}

function range(limit: number, preset: number, unit = ''): string {
  return `at most ${formatNumber(limit)}${unit}, ${formatNumber(preset)}${unit} if not given`;
}
