import type { Statement } from '@bursar/client';

export type Movement = Statement['time']['movements'][number];

/** The kinds of movements in plain words. */
export const kindTexts: Record<Movement['kind'], string> = {
  grant: 'Granted',
  top_up: 'Added',
  withdraw: 'Withdrawn',
  expire: 'Expired',
  reserve: 'Held for a job',
  release: 'Hold released',
  charge: 'Charged for a job',
  free: 'Files deleted',
  refund: 'Refunded',
  transfer: 'Transferred',
  adjust: 'Corrected',
};
