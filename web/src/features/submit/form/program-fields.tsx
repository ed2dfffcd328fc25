import type { System } from '@bursar/client';
import { findCommandLanguage } from '../../../../../src/engines/command-languages.ts';
import { SelectField, TextField } from '../../../ui/field.tsx';
import type { FormField } from './use-form-field.ts';
import type { SubmitValues } from './values.ts';

type Parameter = System['tools'][number]['parameters'][number];

interface ProgramFieldsProps {
  system: System;
  values: SubmitValues;
  field: FormField;
  onChange: (change: Partial<SubmitValues>) => void;
}

/** The command of a batch system, or the tool of a tool system with its parameters. */
export function ProgramFields({ system, values, field, onChange }: ProgramFieldsProps) {
  if (system.kind === 'batch') {
    return (
      <TextField
        label="Command"
        hint={`Such as ${findCommandLanguage(system.command_language).example}, where run.sh is one of your files.`}
        autoComplete="off"
        spellCheck={false}
        value={values.command}
        {...field('command', values.command)}
        onChange={(event) => onChange({ command: event.target.value })}
      />
    );
  }
  const tool = system.tools.find(({ name }) => name === values.tool);
  return (
    <>
      <SelectField
        label="Tool"
        hint={tool?.entry ? `It reads ${tool.entry} first, which must be one of your files.` : undefined}
        value={values.tool}
        {...field('tool', values.tool)}
        onChange={(event) => onChange({ tool: event.target.value })}
      >
        {tool === undefined && <option value="">Choose a tool</option>}
        {system.tools.map(({ name }) => (
          <option key={name}>{name}</option>
        ))}
      </SelectField>
      {tool?.parameters.map((parameter) => (
        <ParameterField
          key={parameter.name}
          parameter={parameter}
          value={values.params[parameter.name] ?? ''}
          field={field}
          onChange={(value) => onChange({ params: { ...values.params, [parameter.name]: value } })}
        />
      ))}
    </>
  );
}

interface ParameterFieldProps {
  parameter: Parameter;
  value: string;
  field: FormField;
  onChange: (value: string) => void;
}

function ParameterField({ parameter, value, field, onChange }: ParameterFieldProps) {
  const { name, type, required, values } = parameter;
  const common = {
    label: required ? name : `${name} (optional)`,
    hint: describeParameter(parameter) || undefined,
    value,
    ...field(name, value),
  };
  if (values !== null && type === 'string') {
    return (
      <SelectField {...common} onChange={(event) => onChange(event.target.value)}>
        <option value="">{emptyChoice(parameter)}</option>
        {values.map((each) => (
          <option key={each}>{each}</option>
        ))}
      </SelectField>
    );
  }
  return (
    <TextField
      {...common}
      autoComplete="off"
      spellCheck={false}
      inputMode={type === 'integer' ? 'numeric' : type === 'number' ? 'decimal' : 'text'}
      placeholder={parameter.default === null ? undefined : String(parameter.default)}
      onChange={(event) => onChange(event.target.value)}
    />
  );
}

function emptyChoice({ default: fallback, required }: Parameter): string {
  if (fallback !== null) return `${fallback} (default)`;
  return required ? 'Choose a value' : 'None';
}

/** `Whole number from 1 to 10. Default: 4.` */
function describeParameter({ type, min, max, pattern, values, default: fallback }: Parameter): string {
  const kinds = { string: 'Text', integer: 'Whole number', number: 'Number', words: 'Words' } as const;
  const bounds =
    min !== null && max !== null
      ? ` from ${min} to ${max}`
      : min !== null
        ? ` from ${min}`
        : max !== null
          ? ` up to ${max}`
          : '';
  const choices = values !== null && type === 'words' ? ` of ${values.join(', ')}` : '';
  const form = pattern === null ? '' : ` that matches ${pattern}`;
  const start = values !== null && type === 'string' ? '' : `${kinds[type]}${bounds}${choices}${form}. `;
  return `${start}${fallback === null ? '' : `Default: ${fallback}.`}`.trim();
}
