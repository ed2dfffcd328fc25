import type { JobPageFilter } from '../../../client/job-pages.ts';
import type { ProjectName } from '../../../shared/permissions.ts';
import { buttonClass } from '../../../ui/button.tsx';
import { SelectField } from '../../../ui/field.tsx';
import { Link } from '../../../ui/link.tsx';
import { SearchField } from '../../../ui/search-field.tsx';
import styles from './job-filters.module.css';
import type { ListRoute } from './list-route.ts';

interface JobFiltersProps {
  route: ListRoute;
  filter: JobPageFilter;
  /** The projects to choose from. */
  projects: readonly ProjectName[];
  /** Shows the page with the changed filters. */
  onChange: (change: JobPageFilter, options?: { replace: boolean }) => void;
}

const states = [
  [undefined, 'All'],
  ['active', 'Active'],
  ['ended', 'Ended'],
  ['failed', 'Failed'],
] as const;

/** The filters of a list of jobs. All of them are in the address of the page. */
export function JobFilters({ route, filter, projects, onChange }: JobFiltersProps) {
  const { search, state, tag, user } = filter;
  // Typing a text is one step of the history, not one a letter.
  const replace = (value: string | undefined) => ({ replace: value !== undefined });
  return (
    <search className={styles.filters}>
      <div className={styles.search}>
        <SearchField
          label="Search jobs"
          placeholder="Search title, id or tag"
          value={search ?? ''}
          onSearch={(text) => onChange({ search: text || undefined }, replace(search))}
        />
      </div>
      <nav className={styles.states} aria-label="State">
        {states.map(([value, name]) => (
          <Link
            key={name}
            to={route}
            search={{ ...filter, state: value, cursor: undefined }}
            aria-current={state === value ? 'true' : undefined}
          >
            {name}
          </Link>
        ))}
      </nav>
      <PlaceFilters filter={filter} projects={projects} onChange={onChange} />
      {route === '/admin/jobs' && (
        <div className={styles.user}>
          <SearchField
            label="User"
            placeholder="User"
            type="text"
            value={user ?? ''}
            onSearch={(text) => onChange({ user: text || undefined }, replace(user))}
          />
        </div>
      )}
      {tag !== undefined && (
        <Link
          to={route}
          search={{ ...filter, tag: undefined, cursor: undefined }}
          className={`${buttonClass()} ${styles.tag}`}
          aria-label={`Tag ${tag}: show jobs with any tag`}
        >
          Tag {tag} <span aria-hidden="true">✕</span>
        </Link>
      )}
    </search>
  );
}

function PlaceFilters({ filter: { hpc, project }, projects, onChange }: Omit<JobFiltersProps, 'route'>) {
  const systems = withCurrent([...new Set(projects.map((each) => each.hpc))].sort(), hpc);
  const names = withCurrent(
    projects
      .filter((each) => each.hpc === hpc)
      .map((each) => each.project)
      .sort(),
    project,
  );
  return (
    <>
      <div className={styles.select}>
        <SelectField
          label={<span className="visually-hidden">System</span>}
          value={hpc ?? ''}
          onChange={({ target }) => onChange({ hpc: target.value || undefined, project: undefined })}
        >
          <option value="">All systems</option>
          {systems.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </SelectField>
      </div>
      <div className={styles.select}>
        <SelectField
          label={<span className="visually-hidden">Project</span>}
          value={project ?? ''}
          disabled={hpc === undefined}
          title={hpc === undefined ? 'Choose a system first' : undefined}
          onChange={({ target }) => onChange({ project: target.value || undefined })}
        >
          <option value="">All projects</option>
          {names.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </SelectField>
      </div>
    </>
  );
}

/** A value from the address is shown even if it is not one of those to choose from. */
const withCurrent = (values: readonly string[], current: string | undefined) =>
  current === undefined || values.includes(current) ? values : [...values, current];
