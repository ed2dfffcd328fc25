import type { ButtonHTMLAttributes } from 'react';
import styles from './button.module.css';

type Variant = 'primary' | 'secondary' | 'danger' | 'quiet';

/** The classes of a button, for links that look like one. */
export const buttonClass = (variant: Variant = 'secondary') => `${styles.button} ${styles[variant] ?? ''}`;

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  variant?: Variant;
  /** The action is under way: it cannot be started again. */
  isBusy?: boolean;
}

export function Button({ variant, isBusy = false, disabled, className = '', children, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      className={`${buttonClass(variant)} ${className}`}
      disabled={disabled || isBusy}
      aria-busy={isBusy}
    >
      {children}
    </button>
  );
}
