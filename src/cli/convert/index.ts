import path from 'node:path';
import type { ConvertedFile, ConvertOptions } from '../../imaging/index.js';
import { type CommandIo, openReporter } from '../terminal/index.js';

/** The document that `remote-app convert --json` prints. */
export interface ConvertDocument {
  readonly from: string;
  readonly converted: readonly ConvertedFile[];
}

/** Converts a local file, without a server, and prints the paths of the new files unless `json` is set. */
export async function convert(
  file: string,
  options: ConvertOptions,
  io: CommandIo,
  json: boolean,
): Promise<ConvertDocument> {
  const { loadConvertFile } = await import('../../imaging/index.js');
  const convertFile = await loadConvertFile();
  using reporter = await openReporter(io, { stdoutIsTaken: json, all: false });
  const converted: ConvertedFile[] = [];
  for await (const written of convertFile(file, options, reporter)) {
    converted.push(written);
    if (!json) await io.writeOut(`${written.output}\n`);
  }
  return { from: path.resolve(file), converted };
}
