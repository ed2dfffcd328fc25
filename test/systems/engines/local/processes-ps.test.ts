import { psProcesses } from '../../../../src/engines/local/processes-ps.ts';
import { testProcessTable } from '../../../engines/local/process-table-contract.ts';

// Used on systems without /proc, but it can be tested everywhere.
testProcessTable('ps', psProcesses);
