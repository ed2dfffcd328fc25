import type { ButtonHTMLAttributes } from 'react';
import styles from './button.module.css';

type Look = 'primary' | 'secondary' | 'danger' | 'quiet';

/** The classes of a button, for links that look like one. */
export const buttonClass = (look: Look = 'secondary') => `${styles.button} ${styles[look] ?? ''}`;

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: Look;
  /** The action is under way: it cannot be started again. */
  isBusy?: boolean;
}

export function Button({ look, isBusy = false, disabled, className = '', children, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      className={`${buttonClass(look)} ${className}`}
      disabled={disabled || isBusy}
      aria-busy={isBusy}
    >
      {children}
    </button>
  );
}
