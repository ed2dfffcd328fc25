import type { ChargeUnit, Resource } from '../../../shared/amount.ts';
import { TextField } from '../../../ui/field.tsx';
import { parseAmount } from './parse-amount.ts';

const hourUnits: Record<ChargeUnit, string> = { core: 'core-hours', node: 'node-hours', wall: 'hours' };

interface AmountFieldProps {
  label: string;
  resource: Resource;
  charge: ChargeUnit;
  value: string;
  onChange: (text: string) => void;
  hint?: string;
  /** 0 is allowed, and an empty field is 0. */
  isOptional?: boolean;
}

/** An amount in the unit that people use: hours of the charged unit, or GB. */
export function AmountField({ label, resource, charge, value, onChange, hint, isOptional = false }: AmountFieldProps) {
  const isInvalid = value.trim() !== '' && parseAmount(value, resource, isOptional ? 0 : 1) === undefined;
  return (
    <TextField
      label={`${label} in ${resource === 'time' ? hourUnits[charge] : 'GB'}`}
      inputMode="decimal"
      autoComplete="off"
      placeholder={isOptional ? '0' : '100'}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      hint={hint}
      error={isInvalid ? 'Enter a number, such as 100 or 0.5.' : undefined}
    />
  );
}
