import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useId, useState } from 'react';
import { bursar } from '../../../client/bursar.ts';
import { systemsQuery } from '../../../client/queries.ts';
import { SelectField, TextField } from '../../../ui/field.tsx';
import { ActionDialog } from '../action-dialog.tsx';
import styles from '../admin.module.css';
import { useCharge } from './accounts.ts';
import { AmountField } from './amount-field.tsx';
import { parseAmount } from './parse-amount.ts';
import { type ProjectDialogProps, useProjectChange } from './project-changes.ts';

const namePattern = /^[a-z0-9][a-z0-9_-]{0,63}$/;

export function CreateProjectDialog({ onClose }: { onClose: () => void }) {
  const apply = useProjectChange();
  const navigate = useNavigate();
  const { data: systems = [] } = useQuery(systemsQuery);
  const [chosen, setChosen] = useState<string>();
  const hpc = chosen ?? systems[0]?.hpc ?? '';
  const charge = useCharge(hpc);
  const [name, setName] = useState('');
  const [isOpenToAll, setOpenToAll] = useState(false);
  const [timeText, setTimeText] = useState('');
  const [spaceText, setSpaceText] = useState('');
  const checkboxId = useId();
  const seconds = parseAmount(timeText || '0', 'time', 0);
  const spaceKb = parseAmount(spaceText || '0', 'space', 0);
  const isNameValid = namePattern.test(name);

  const submit = async (reason: string, key: string) => {
    const body = {
      name,
      auto_join: isOpenToAll,
      grant_time_seconds: seconds ?? 0,
      grant_space_kb: spaceKb ?? 0,
      reason,
    };
    const sent = bursar.api.createProject({ path: { hpc }, headers: { 'Idempotency-Key': key }, body });
    await apply(sent, `${name} is created`);
    void navigate({ to: '/admin/projects/$hpc/$project', params: { hpc, project: name } });
  };

  return (
    <ActionDialog
      title="New project"
      submitLabel="Create"
      canSubmit={isNameValid && seconds !== undefined && spaceKb !== undefined && hpc !== ''}
      onClose={onClose}
      onSubmit={submit}
    >
      <div className={styles.fields}>
        <SelectField label="System" value={hpc} onChange={(event) => setChosen(event.target.value)}>
          {systems.map((system) => (
            <option key={system.hpc}>{system.hpc}</option>
          ))}
        </SelectField>
        <TextField
          label="Name"
          placeholder="climate"
          autoComplete="off"
          spellCheck={false}
          value={name}
          onChange={(event) => setName(event.target.value)}
          error={name === '' || isNameValid ? undefined : 'Use small letters, digits, "_" and "-".'}
        />
        <AmountField
          label="Each new member"
          resource="time"
          charge={charge}
          value={timeText}
          onChange={setTimeText}
          isOptional
        />
        <AmountField
          label="Each new member"
          resource="space"
          charge={charge}
          value={spaceText}
          onChange={setSpaceText}
          isOptional
        />
      </div>
      <label htmlFor={checkboxId} className="row">
        <input
          id={checkboxId}
          type="checkbox"
          checked={isOpenToAll}
          onChange={(event) => setOpenToAll(event.target.checked)}
        />
        Every user becomes a member
      </label>
    </ActionDialog>
  );
}

export function CloseProjectDialog({ project, onClose }: ProjectDialogProps) {
  const apply = useProjectChange();
  return (
    <ActionDialog
      title={`Close ${project.project}`}
      submitLabel="Close the project"
      isDangerous
      onClose={onClose}
      onSubmit={(reason, key) =>
        apply(
          bursar.api.closeProject({
            path: { hpc: project.hpc, project_name: project.project },
            headers: { 'Idempotency-Key': key },
            body: { reason },
          }),
          `${project.project} is closed`,
        )
      }
    >
      <p>
        It accepts no more jobs. Its submitted jobs continue, and its quotas stay readable. A project is closed for
        good.
      </p>
    </ActionDialog>
  );
}
