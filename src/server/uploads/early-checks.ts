import { FieldError } from '../../contract/errors.js';
import { carriesFiles } from '../../contract/fields.js';
import type { Operation } from '../../contract/operations.js';
import { type FormFields, readFields, unknownNames } from './read-fields.js';
import type { ReceivedField } from './received-form.js';

/** @throws FieldError for a file in a field that takes none */
export function checkFileField(operation: Operation, name: string): void {
  const isKnown = unknownNames(operation, [name]).length === 0;
  const field = operation.fields.find((each) => each.name === name);
  if (isKnown && !(field && carriesFiles(field)))
    throw new FieldError(name, 'must be sent as text, not as a file');
}

/**
 * Checks a form as far as it is known when a file of it begins: the fields before the first file, and the name of each
 * field of files. A submission that is wrong is refused before its files are sent. What comes later is checked at the end.
 */
export class EarlyChecks {
  readonly #seen = new Set<string>();

  /** @param checkValues throws for values that are right in themselves and that this server cannot serve */
  constructor(
    private readonly operation: Operation,
    private readonly checkValues: (fields: FormFields) => void,
  ) {}

  /**
   * @param name the field that the file is in
   * @param fields those that came before it
   * @throws ServiceError
   */
  beforeFile(name: string, fields: readonly ReceivedField[]): void {
    if (this.#seen.has(name)) return;
    if (this.#seen.size === 0) this.checkValues(readFields(this.operation, fields));
    this.#seen.add(name);
    checkFileField(this.operation, name);
  }
}
