/** A process for good: the mark tells it from a later one that was given the same number. */
export interface ProcessId {
  pid: number;
  /** Null when it was gone before it could be looked at. */
  mark: string | null;
}

/** What belongs to a job: the process group (and session) of its leader, and whatever carries its id. */
export interface JobProcesses {
  jobId: string;
  leader: ProcessId | null;
}

/** What a table finds of a job. Processes that have ended but were not yet waited for are left out. */
export interface FoundProcesses {
  /** The process group, if it is still the job's. */
  group: number | null;
  processes: { pid: number; residentKb: number }[];
}

/** How to look at processes; one for each kind of operating system. */
export interface ProcessTable {
  /** Null when there is no such process; `ended` when it was only not yet waited for. */
  look(pid: number): Promise<{ mark: string; ended: boolean } | null>;
  find(job: JobProcesses): Promise<FoundProcesses>;
}
