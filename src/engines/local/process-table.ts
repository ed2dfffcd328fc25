/** Identifies a process permanently: the mark distinguishes it from a later process with the same pid. */
export interface ProcessId {
  pid: number;
  /** Derived from the start time. Null if the process ended before it could be read. */
  mark: string | null;
}

/**
 * Selects the processes of a job: the process group and session of its leader, all processes with its id in their
 * environment, and the descendants of all these.
 */
export interface JobProcessSelector {
  jobId: string;
  leader: ProcessId | null;
  /** True if the leader is bubblewrap. No process of a sandbox can leave its descendants. */
  isSandboxed?: boolean;
}

/** The processes that a selector found, without zombies. */
export interface FoundProcesses {
  /** The process group, if it still belongs to the job. */
  group: number | null;
  processes: { pid: number; residentKib: number }[];
}

/** Reads the process table; one implementation for each kind of operating system. */
export interface ProcessTable {
  /** Returns null if there is no such process. */
  read(pid: number): Promise<{ mark: string; isZombie: boolean } | null>;
  /** Reads all processes, for any number of jobs. */
  scan(): Promise<ProcessScan>;
}

/** The processes at the time of a scan. */
export interface ProcessScan {
  findJobProcesses(job: JobProcessSelector): FoundProcesses;
}
