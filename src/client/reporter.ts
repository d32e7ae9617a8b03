/** The name of a transfer, as a progress bar shows it. */
export type TransferPhase =
  | 'Reading'
  | 'Hashing'
  | 'Drawing'
  | 'Packing'
  | 'Uploading'
  | 'Downloading'
  | 'Extracting';

/** Receives everything that the client reports. The client does not know whether a person reads it. */
export interface Reporter {
  /**
   * Reports one line of the job's log. False once the reader has closed the output.
   * @param isRedraw whether the app wants the next line to replace this one, as progress bars do
   * @param number of the line in the log, counted from 1
   */
  line(text: string, isRedraw: boolean, number: number): Promise<boolean>;
  /** Called when the log has ended or is no longer followed. Shows the line that was held back in case it would be redrawn. */
  endLog(): Promise<boolean>;
  /** A hint for a person. */
  note(text: string): void;
  /**
   * Reports what the command is waiting for; null once the wait is over.
   * @param isNews whether to report it even if nothing is drawn
   */
  waiting(what: string | null, isNews?: boolean): void;
  /** Reports whether the thing being waited for is running, such as the followed job: its run time is shown on the drawn line. */
  running(isRunning: boolean): void;
  /** Reports what the command is waiting for while a log is silent. Shown only if nothing else is. */
  silent(what: string): void;
  /**
   * Reports progress in bytes or, in the phases `Reading` and `Drawing`, in files or cases. A total of 0 means that it is
   * unknown.
   */
  progress(phase: TransferPhase, done: number, total: number): void;
}
