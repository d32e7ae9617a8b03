import type { DeidentifyChoice } from '../outgoing.js';
import type { Reporter } from '../reporter.js';
import type { ChooseSeries, ConversionRequest, Imaging } from './imaging.js';

/** Options of a command for its jobs, besides what is sent. */
export interface JobOptions {
  readonly imaging: Imaging;
  readonly reporter: Reporter;
  /** The directory for results; files already in it are not sent. */
  readonly output: string;
  /** Chooses among the series of a directory; without it all of them are sent. */
  readonly chooseSeries?: ChooseSeries | undefined;
  /** Whether and how files are de-identified. */
  readonly deidentify: DeidentifyChoice;
  /** The format that the volumes of a result are converted to. */
  readonly conversion?: ConversionRequest | undefined;
  /** The version of this program, for the record beside a result. */
  readonly clientVersion: string;
  /** Maximum wait for a result once its job has ended, in seconds. */
  readonly wait: number;
  /** Maximum time for a kill to take effect, in seconds. */
  readonly killTimeout: number;
}
