import { useQueryClient } from '@tanstack/react-query';
import { keys } from '../../../client/queries.ts';
import type { ChargeUnit } from '../../../shared/amount.ts';
import type { ProjectName } from '../../../shared/permissions.ts';
import { toast } from '../../../ui/toast.tsx';
import type { AccountFigures } from '../account-figures.tsx';
import { describeAccounts } from './preview-view.tsx';

/** The parts that every dialog of a project needs. */
export interface ProjectDialogProps {
  project: ProjectName;
  charge: ChargeUnit;
  onClose: () => void;
}

/** Waits for a change of a project, reads the project again, and shows the result. */
export function useProjectChange(charge: ChargeUnit = 'core') {
  const queryClient = useQueryClient();
  return async (change: Promise<unknown>, message: string) => {
    const result = await change;
    const changedKeys = [keys.accounts, keys.statements, keys.projects, keys.me];
    await Promise.all(changedKeys.map((queryKey) => queryClient.invalidateQueries({ queryKey })));
    toast.show(message, isAccounts(result) ? describeAccounts(result, charge) : undefined);
  };
}

function isAccounts(result: unknown): result is AccountFigures[] {
  return Array.isArray(result) && result.every((each) => typeof each === 'object' && 'available' in each);
}
