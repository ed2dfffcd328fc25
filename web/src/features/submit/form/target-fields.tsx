import type { Me, System } from '@bursar/client';
import { SelectField } from '../../../ui/field.tsx';
import { Time } from '../../../ui/time.tsx';
import styles from '../submit.module.css';
import type { SubmitValues } from './values.ts';

interface TargetFieldsProps {
  systems: readonly System[];
  system: System;
  projects: Me['projects'];
  values: SubmitValues;
  onChange: (change: Partial<SubmitValues>) => void;
}

/** The system and the project, with the state of the system. */
export function TargetFields({ systems, system, projects, values, onChange }: TargetFieldsProps) {
  return (
    <>
      <div className={styles.fields}>
        <SelectField
          label="System"
          value={system.hpc}
          onChange={(event) => onChange({ hpc: event.target.value, project: '' })}
        >
          {systems.map(({ hpc, paused_at: pausedAt }) => (
            <option key={hpc} value={hpc}>
              {hpc}
              {pausedAt === null ? '' : ' (paused)'}
            </option>
          ))}
        </SelectField>
        <SelectField
          label="Project"
          value={values.project}
          error={projects.length === 0 ? `You are not in a project of ${system.hpc}.` : undefined}
          onChange={(event) => onChange({ project: event.target.value })}
        >
          {projects.map(({ project_name: name }) => (
            <option key={name}>{name}</option>
          ))}
        </SelectField>
      </div>
      <SystemNotice system={system} />
    </>
  );
}

function SystemNotice({
  system: { hpc, status, detail, paused_at: pausedAt, pause_reason: reason },
}: {
  system: System;
}) {
  if (pausedAt !== null) {
    return (
      <p className="notice" role="status">
        <strong>{hpc} is paused</strong> since <Time value={pausedAt} /> and takes no jobs: {reason}
      </p>
    );
  }
  if (status === 'up') return null;
  return (
    <p className="notice" role="status">
      <strong>
        {hpc} is {status}.
      </strong>{' '}
      {detail} You can submit: the job waits.
    </p>
  );
}
