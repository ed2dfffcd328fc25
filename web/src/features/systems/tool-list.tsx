import type { System } from '@bursar/client';
import { formatCount, formatNumber } from '../../ui/format.ts';
import { Table } from '../../ui/table.tsx';
import styles from './systems.module.css';

type Tool = System['tools'][number];
type Parameter = Tool['parameters'][number];

/** The tools of a system, each with the parameters that a job may set. */
export function ToolList({ tools }: { tools: readonly Tool[] }) {
  return (
    <div className={styles.tools}>
      <h3>Tools</h3>
      {tools.map((tool) => (
        <ToolItem key={tool.name} tool={tool} />
      ))}
    </div>
  );
}

function ToolItem({ tool }: { tool: Tool }) {
  const title = (
    <>
      <strong>{tool.name}</strong> <span className="muted">{summaryOf(tool)}</span>
    </>
  );
  if (tool.parameters.length === 0) return <p>{title}</p>;
  return (
    <details className={styles.tool}>
      <summary>{title}</summary>
      <ParameterTable tool={tool} />
    </details>
  );
}

function summaryOf({ entry, parameters }: Tool): string {
  const start = entry === null ? 'needs no file' : `starts with ${entry}`;
  if (parameters.length === 0) return `${start}, no parameters`;
  return `${start}, ${formatCount(parameters.length, 'parameter')}`;
}

function ParameterTable({ tool }: { tool: Tool }) {
  return (
    <Table label={`Parameters of ${tool.name}`}>
      <thead>
        <tr>
          <th scope="col">Parameter</th>
          <th scope="col">Type</th>
          <th scope="col">Default</th>
          <th scope="col">Allowed</th>
        </tr>
      </thead>
      <tbody>
        {tool.parameters.map((parameter) => (
          <tr key={parameter.name}>
            <td>
              <code>{parameter.name}</code>
            </td>
            <td>{parameter.type}</td>
            <td>{parameter.required ? 'required' : (parameter.default ?? <span className="muted">–</span>)}</td>
            <td>{allowedValues(parameter)}</td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

function allowedValues({ values, pattern, min, max }: Parameter) {
  if (values !== null) return values.join(', ');
  if (pattern !== null) return <code className={styles.pattern}>{pattern}</code>;
  if (min !== null && max !== null) return `${formatNumber(min)} to ${formatNumber(max)}`;
  if (min !== null) return `at least ${formatNumber(min)}`;
  if (max !== null) return `at most ${formatNumber(max)}`;
  return 'any';
}
