/** The name of a transfer, as a progress bar shows it. */
export type TransferPhase =
  | 'Reading'
  | 'Hashing'
  | 'Drawing'
  | 'Packing'
  | 'Uploading'
  | 'Downloading'
  | 'Extracting';

/** Receives what the client has to tell. The client does not know whether a person reads it. */
export interface Reporter {
  /**
   * One line of the job's log. False once the reader has closed the output.
   * @param isRedraw the app meant the next line to replace it, as progress bars do
   * @param number of the line in the log, counted from 1
   */
  line(text: string, isRedraw: boolean, number: number): Promise<boolean>;
  /** The log has ended or is not followed any further: shows the line that was held back in case it would be redrawn. */
  endLog(): Promise<boolean>;
  /** A hint for a person. */
  note(text: string): void;
  /**
   * What is being waited for; null once the wait is over.
   * @param isNews whether to report it even if nothing is drawn
   */
  waiting(what: string | null, isNews?: boolean): void;
  /** Whether what is waited for is running now, such as the followed job: its run time is shown on the drawn line. */
  running(isRunning: boolean): void;
  /** What is being waited for while a log is silent. Shown only if nothing else is. */
  silent(what: string): void;
  /** Bytes moved so far or, in the phases `Reading` and `Drawing`, files read and cases drawn. A total of 0 means that it is not known. */
  progress(phase: TransferPhase, done: number, total: number): void;
}
