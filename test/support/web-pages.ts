import type { Page } from 'playwright-core';
import type { DemoData } from './demo-data.ts';
import { firstUsers } from './server.ts';
import { createZip } from './zip.ts';

export interface PageOfWebPage {
  name: string;
  path: string;
  user: string;
  /** A text that shows that the data has arrived. */
  shows: string | RegExp;
  /** Brings the page into the state to look at. */
  prepare?(page: Page): Promise<void>;
}

/** Every page of the web page, with the demo data. */
export function listPages({ succeeded, failed, running, webhookId }: DemoData): PageOfWebPage[] {
  const pathOf = (job: DemoData['failed']) => `jobs/${job.hpc}/${job.project_name}/${job.job_id}`;
  const own = (name: string, path: string, shows: string | RegExp) => ({ name, path, shows, user: firstUsers.user });
  const staff = (name: string, path: string, shows: string | RegExp) => ({ name, path, shows, user: firstUsers.admin });
  return [
    own('jobs', 'jobs', 'Membrane with channel'),
    own('jobs-ended-badly', 'jobs?state=failed', 'Water box, 310 K'),
    own('submit', 'submit', 'Command'),
    { ...own('submit-filled', 'submit', 'Command'), prepare: fillForm },
    own('job', pathOf(succeeded), 'Water box, 300 K'),
    own('job-failed', pathOf(failed), 'ValueError'),
    own('job-log', `${pathOf(running)}?tab=log`, /step \d+ of 9999/),
    own('job-files', `${pathOf(succeeded)}?tab=files&file=results/energy.csv`, 'temperature'),
    own('job-image', `${pathOf(succeeded)}?tab=files&file=results/energy.svg`, 'Download all'),
    own('quotas', 'quotas', 'proj_hpc_one_01'),
    own('statement', 'quotas/hpc_one/proj_hpc_one_01', 'Second call of the year'),
    own('systems', 'systems', 'PYTHON3'),
    own('profile', 'account', 'bursar.mjs'),
    own('tokens', 'account?tab=tokens', 'notebook'),
    own('sessions', 'account?tab=sessions', '127.0.0.1'),
    own('webhooks', 'account?tab=webhooks', 'http://127.0.0.1:9/bursar'),
    own('webhook', `account/webhooks/${webhookId}`, 'http://127.0.0.1:9/bursar'),
    own('notifications', 'account?tab=notifications', /notif/i),
    staff('admin-jobs', 'admin/jobs', 'Membrane with channel'),
    staff('admin-users', 'admin/users', firstUsers.user),
    staff('admin-user', `admin/users/${firstUsers.user}`, 'proj_hpc_one_01'),
    staff('admin-projects', 'admin/projects', 'proj_hpc_two_02'),
    staff('admin-project', 'admin/projects/hpc_one/proj_hpc_one_01', firstUsers.user),
    staff('admin-systems', 'admin/systems', 'hpc_two'),
    staff('admin-audit', 'admin/audit', 'Second call of the year'),
    staff('admin-ledger', 'admin/ledger', /ledger/i),
    staff('admin-usage', 'admin/usage', 'proj_hpc_one_01'),
  ];
}

async function fillForm(page: Page): Promise<void> {
  const files = { 'run.sh': '#!/bin/bash\n', 'parameters.json': '{}\n', 'structures/water.gro': 'x'.repeat(40_000) };
  const buffer = Buffer.from(await createZip(files));
  await page.getByLabel('Choose a zip').setInputFiles({ name: 'water.zip', mimeType: 'application/zip', buffer });
  await page.getByLabel('Command').fill('sbatch run.sh');
  await page.getByLabel('Nodes').fill('2');
  await page.getByLabel('Cores per node').fill('6');
  await page.getByLabel('Runtime in hours').fill('2');
  await page.getByText(/^Costs at most/i).waitFor();
}
