/** A part that is a text. */
export interface ReceivedField {
  readonly name: string;
  readonly text: string;
}

/** A file part, written as it came. */
export interface ReceivedFile {
  readonly field: string;
  /** The client's name for it, as sent. */
  readonly name: string;
  readonly path: string;
}

/** What a multipart body held, in the order of its parts. */
export interface ReceivedForm {
  readonly fields: readonly ReceivedField[];
  readonly files: readonly ReceivedFile[];
}
