/** What is being moved, as a progress bar calls it. */
export type Stage = 'Packing' | 'Uploading' | 'Downloading' | 'Extracting';

/** How the client tells what it is doing. It neither knows nor cares whether a person watches. */
export interface Reporter {
  /** One line of the job's log; false where nobody reads any more. */
  line(text: string): Promise<boolean>;
  /** A hint for a person. */
  note(text: string): void;
  /** What is being waited for; null once the wait is over. */
  waiting(what: string | null): void;
  /** Bytes moved so far; a total of 0 is one that is not known. */
  progress(stage: Stage, done: number, total: number): void;
}
