import { excerpt } from '../../contract/quote.js';
import { readOwnFile } from '../../files/own-file.js';

/** Environment variables of the command that name its refusal file: ours, and the one that KonfAI's engine knows. */
export const refusalVariables = ['REMOTE_APP_REFUSAL_FILE', 'KONFAI_APPS_REFUSAL_FILE'] as const;

/** Bytes of a refusal: a sentence, or a list of what is wrong. */
const longest = 64 * 1024;

/**
 * What an app that failed has written into its refusal file: why it does not accept its input, for a person to mend.
 * @returns null if it refused nothing, or if the file cannot be read, such as a symbolic or hard link that the job made
 */
export function readRefusal(file: string): string | null {
  try {
    const text = readOwnFile(file, longest, true)?.trim().replaceAll(/\s+/g, ' ');
    return text ? excerpt(text) : null;
  } catch {
    return null;
  }
}
