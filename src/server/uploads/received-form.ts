/** A part that is a text. */
export interface ReceivedField {
  readonly name: string;
  readonly text: string;
}

/** A file part, whose content is on the disk. */
export interface ReceivedFile {
  readonly field: string;
  /** The client's name for it, as sent. */
  readonly name: string;
  readonly path: string;
}

/** The parts of a multipart body, in their order. */
export interface ReceivedForm {
  readonly fields: readonly ReceivedField[];
  readonly files: readonly ReceivedFile[];
  /** Bytes of the whole body. */
  readonly bytes: number;
}
