import type { System } from '@bursar/client';
import { TextField } from '../../../ui/field.tsx';
import { formatDuration, formatNumber } from '../../../ui/format.ts';
import styles from '../submit.module.css';
import { parseRuntime } from './runtime-text.ts';
import type { FormField } from './use-form-field.ts';
import type { SubmitValues } from './values.ts';

interface ResourceFieldsProps {
  system: System;
  values: SubmitValues;
  field: FormField;
  onChange: (change: Partial<SubmitValues>) => void;
}

export function ResourceFields({
  system: { limits, defaults, runtime_policy },
  values,
  field,
  onChange,
}: ResourceFieldsProps) {
  const hours = parseRuntime(values.runtime);
  const limit = `Up to ${formatDuration(limits.runtime * 3600)}${runtime_policy === 'clamp' ? ': more is cut to that' : ''}.`;
  return (
    <div className={styles.fields}>
      <TextField
        label="Nodes"
        hint={`1 to ${formatNumber(limits.nodes)}.`}
        inputMode="numeric"
        autoComplete="off"
        placeholder={String(defaults.nodes)}
        value={values.nodes}
        {...field('node_number', values.nodes)}
        onChange={(event) => onChange({ nodes: event.target.value })}
      />
      <TextField
        label="Cores per node"
        hint={`1 to ${formatNumber(limits.cores_per_node)}.`}
        inputMode="numeric"
        autoComplete="off"
        placeholder={String(defaults.cores_per_node)}
        value={values.cores}
        {...field('core_number', values.cores)}
        onChange={(event) => onChange({ cores: event.target.value })}
      />
      <TextField
        label="Runtime in hours"
        hint={`${hours === null ? 'Such as 1.5, 1:30 or 90 min' : formatDuration(hours * 3600)}. ${limit}`}
        autoComplete="off"
        placeholder={String(defaults.runtime)}
        value={values.runtime}
        {...field('runtime', values.runtime)}
        onChange={(event) => onChange({ runtime: event.target.value })}
      />
    </div>
  );
}
