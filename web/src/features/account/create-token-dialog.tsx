import type { Me } from '@bursar/client';
import { type FormEvent, useId, useState } from 'react';
import { bursar } from '../../client/bursar.ts';
import { fieldErrors } from '../../shared/field-errors.ts';
import { systemName } from '../../shared/system-name.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { SelectField, TextField } from '../../ui/field.tsx';
import { ErrorMessage } from '../../ui/states.tsx';
import styles from './account.module.css';

type Scope = Me['scopes'][number];

const scopeTexts: Record<Scope, string> = {
  'jobs:read': 'read jobs, their files and logs',
  'jobs:write': 'submit, cancel and delete jobs',
  'quotas:read': 'read quotas, statements and quotes',
  'events:read': 'read events and webhooks',
  'webhooks:write': 'register and change webhooks',
  'admin:read': 'read what your role may read of others',
  'admin:write': 'change what your role may change of others',
};

const defaultScopes: readonly Scope[] = ['jobs:read', 'jobs:write', 'quotas:read', 'events:read'];
const lives = [7, 30, 90, 365];

interface CreateTokenDialogProps {
  me: Me;
  isOpen: boolean;
  onClose: () => void;
  onCreated: (token: string) => void;
}

export function CreateTokenDialog({ me, isOpen, onClose, onCreated }: CreateTokenDialogProps) {
  return (
    <Dialog title="Create a token" isOpen={isOpen} onClose={onClose}>
      <TokenForm me={me} onClose={onClose} onCreated={onCreated} />
    </Dialog>
  );
}

function TokenForm({ me, onClose, onCreated }: Omit<CreateTokenDialogProps, 'isOpen'>) {
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<readonly Scope[]>(defaultScopes.filter((scope) => me.scopes.includes(scope)));
  const [days, setDays] = useState(30);
  const [place, setPlace] = useState('');
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    const [hpc, project] = place.split('/');
    try {
      const { token } = await bursar.api.createToken({
        body: {
          name: name.trim(),
          scopes: [...scopes],
          days,
          ...(hpc ? { hpc } : {}),
          ...(project ? { project_name: project } : {}),
        },
      });
      onCreated(token);
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };

  const errors = fieldErrors(error);
  const isComplete = name.trim() !== '' && scopes.length > 0;
  return (
    <form className="stack" onSubmit={(event) => void submit(event)}>
      <TextField
        label="Name"
        hint="Says where it is used, such as: notebook on my laptop."
        error={errors.name}
        value={name}
        maxLength={100}
        onChange={(event) => setName(event.target.value)}
      />
      <Scopes all={me.scopes} chosen={scopes} onChange={setScopes} />
      <SelectField
        label="Valid for"
        error={errors.days}
        value={days}
        onChange={(event) => setDays(Number(event.target.value))}
      >
        {lives.map((life) => (
          <option key={life} value={life}>
            {life} days
          </option>
        ))}
      </SelectField>
      <PlaceField me={me} value={place} onChange={setPlace} />
      {error !== undefined && <ErrorMessage error={error} />}
      <div className={styles.formActions}>
        <Button onClick={onClose}>Back</Button>
        <Button variant="primary" type="submit" isBusy={isBusy} disabled={!isComplete}>
          Create
        </Button>
      </div>
    </form>
  );
}

interface ScopesProps {
  all: readonly Scope[];
  chosen: readonly Scope[];
  onChange: (scopes: readonly Scope[]) => void;
}

function Scopes({ all, chosen, onChange }: ScopesProps) {
  const id = useId();
  return (
    <fieldset className={styles.choices}>
      <legend>It may</legend>
      {all.map((scope) => (
        <label key={scope} className={styles.check} htmlFor={`${id}-${scope}`}>
          <input
            id={`${id}-${scope}`}
            type="checkbox"
            checked={chosen.includes(scope)}
            onChange={(event) =>
              onChange(event.target.checked ? [...chosen, scope] : chosen.filter((each) => each !== scope))
            }
          />
          <span>
            {scopeTexts[scope]} <code className="muted">{scope}</code>
          </span>
        </label>
      ))}
    </fieldset>
  );
}

/** A token can be limited to a system, or to a project on it. The value is `hpc` or `hpc/project`. */
function PlaceField({ me, value, onChange }: { me: Me; value: string; onChange: (place: string) => void }) {
  const projects = me.projects.map((each) => ({ hpc: systemName(each), project: each.project_name }));
  const systems = [...new Set(projects.map(({ hpc }) => hpc))];
  return (
    <SelectField label="Works for" value={value} onChange={(event) => onChange(event.target.value)}>
      <option value="">all systems and projects</option>
      {systems.map((hpc) => (
        <option key={hpc} value={hpc}>
          only {hpc}
        </option>
      ))}
      {projects.map(({ hpc, project }) => (
        <option key={`${hpc}/${project}`} value={`${hpc}/${project}`}>
          only {project} on {hpc}
        </option>
      ))}
    </SelectField>
  );
}
