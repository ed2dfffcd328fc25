import { type ReactNode, useId } from 'react';
import styles from './card.module.css';

interface CardProps {
  title?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  className?: string;
}

/** A section of a page, named by its title. */
export function Card({ title, actions, children, className = '' }: CardProps) {
  const titleId = useId();
  return (
    <section className={`${styles.card} ${className}`} aria-labelledby={title === undefined ? undefined : titleId}>
      {title !== undefined && (
        <div className={styles.header}>
          <h2 id={titleId}>{title}</h2>
          {actions !== undefined && <div className="row">{actions}</div>}
        </div>
      )}
      {children}
    </section>
  );
}

interface PageHeaderProps {
  title: string;
  /** Shown instead of the title, which then only names the window. */
  heading?: ReactNode;
  description?: ReactNode;
  actions?: ReactNode;
}

/** The heading of a page, which also names the window. */
export function PageHeader({ title, heading = title, description, actions }: PageHeaderProps) {
  return (
    <div className={styles.pageHeader}>
      <title>{`${title} · Bursar`}</title>
      <div>
        <h1>{heading}</h1>
        {description !== undefined && <p className="muted">{description}</p>}
      </div>
      {actions !== undefined && <div className="row">{actions}</div>}
    </div>
  );
}

/** Names and values, such as the properties of a job. */
export function DescriptionList({ items }: { items: readonly (readonly [name: string, value: ReactNode])[] }) {
  return (
    <dl className={styles.descriptionList}>
      {items.map(([name, value]) => (
        <DescriptionRow key={name} name={name} value={value} />
      ))}
    </dl>
  );
}

function DescriptionRow({ name, value }: { name: string; value: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}
