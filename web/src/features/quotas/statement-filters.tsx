import { Button } from '../../ui/button.tsx';
import { addDays, today } from '../../ui/days.ts';
import { SelectField, TextField } from '../../ui/field.tsx';
import { kindTexts } from './movement-kinds.ts';
import styles from './quotas.module.css';
import type { StatementSearch } from './statement-search.ts';

interface StatementFiltersProps {
  search: StatementSearch;
  /** The first day that is shown; undefined for the first movement. */
  from: string | undefined;
  onChange: (search: StatementSearch) => void;
}

const presets = [
  { title: '30 days', from: () => addDays(today(), -30) },
  { title: '90 days', from: () => undefined },
  { title: 'A year', from: () => addDays(today(), -365) },
  { title: 'Everything', from: () => 'all' },
];

/** The filters of a statement, which are kept in the address of the page. */
export function StatementFilters({ search, from, onChange }: StatementFiltersProps) {
  return (
    <div className={styles.filters}>
      <SelectField
        label="Of"
        value={search.resource ?? 'time'}
        onChange={(event) => onChange({ resource: event.target.value === 'space' ? 'space' : undefined })}
      >
        <option value="time">Time</option>
        <option value="space">Space</option>
      </SelectField>
      <SelectField
        label="Kind"
        value={search.kind ?? ''}
        onChange={(event) => onChange({ kind: (event.target.value || undefined) as StatementSearch['kind'] })}
      >
        <option value="">All</option>
        {Object.entries(kindTexts).map(([kind, text]) => (
          <option key={kind} value={kind}>
            {text}
          </option>
        ))}
      </SelectField>
      <TextField
        label="From"
        type="date"
        value={from ?? ''}
        max={search.to ?? today()}
        onChange={(event) => onChange({ from: event.target.value || 'all' })}
      />
      <TextField
        label="To"
        type="date"
        value={search.to ?? today()}
        {...(from === undefined ? {} : { min: from })}
        max={today()}
        onChange={(event) =>
          onChange({ to: event.target.value === today() ? undefined : event.target.value || undefined })
        }
      />
      <div className={styles.presets}>
        {presets.map((preset) => (
          <Button
            key={preset.title}
            variant="quiet"
            aria-pressed={search.to === undefined && search.from === preset.from()}
            onClick={() => onChange({ from: preset.from(), to: undefined })}
          >
            {preset.title}
          </Button>
        ))}
      </div>
    </div>
  );
}
