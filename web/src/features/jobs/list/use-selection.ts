import { useRef, useState } from 'react';

export interface Selection {
  selected: ReadonlySet<number>;
  /** Selects or deselects one row; with `isRange`, all rows from the last one that was changed to this one. */
  change(id: number, isSelected: boolean, isRange: boolean): void;
  changeAll(isSelected: boolean): void;
}

/** The selected rows of a list. Rows that are not shown any more are not selected. */
export function useSelection(ids: readonly number[]): Selection {
  const [stored, setStored] = useState<ReadonlySet<number>>(new Set());
  const lastChanged = useRef<number>(undefined);
  return {
    selected: new Set(ids.filter((id) => stored.has(id))),
    change(id, isSelected, isRange) {
      const start = isRange && lastChanged.current !== undefined ? ids.indexOf(lastChanged.current) : -1;
      const end = ids.indexOf(id);
      const changed = start < 0 ? [id] : ids.slice(Math.min(start, end), Math.max(start, end) + 1);
      const next = new Set(stored);
      for (const each of changed) {
        if (isSelected) next.add(each);
        else next.delete(each);
      }
      lastChanged.current = id;
      setStored(next);
    },
    changeAll(isSelected) {
      lastChanged.current = undefined;
      setStored(new Set(isSelected ? ids : []));
    },
  };
}
