import path from 'node:path';
import { excerpt, nearest, quoteName } from '../../contract/index.js';
import { UsageError } from '../errors.js';
import { editPrivate, readPrivate } from '../private-json.js';

/** A server that the user logged in to. */
export interface Profile {
  readonly server: string;
  readonly token?: string | undefined;
  readonly app?: string | undefined;
  /** Absolute path of a file with certificates that are trusted for this server. */
  readonly ca?: string | undefined;
  /** Whether files are de-identified before they are sent, or only get neutral names. */
  readonly deidentify?: 'full' | 'names' | undefined;
}

export const defaultProfile = 'default';

const fileOf = (directory: string): string => path.join(directory, 'profiles.json');

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';

function isProfile(value: unknown): value is Profile {
  if (typeof value !== 'object' || value === null) return false;
  const { server, ...rest } = value as Partial<Record<keyof Profile, unknown>>;
  const isTextOrAbsent = (each: unknown): boolean => each === undefined || isText(each);
  const isMode = [undefined, 'full', 'names'].includes(rest.deidentify as string | undefined);
  return isText(server) && isMode && [rest.token, rest.app, rest.ca].every(isTextOrAbsent);
}

function readAll(directory: string): Readonly<Record<string, unknown>> {
  const file = fileOf(directory);
  return readPrivate(
    file,
    'profiles',
    (problem) => `The profiles in ${file} cannot be read: ${problem}; repair or remove it, then log in again`,
  );
}

/**
 * Reads a profile.
 * @param name null for the default profile, which `login` writes without a name
 * @returns null if no name was given and there is no default profile
 * @throws UsageError for an unknown name, or a damaged file
 */
export function readProfile(directory: string, name: string | null): Profile | null {
  const profiles = readAll(directory);
  const key = name ?? defaultProfile;
  const profile = Object.hasOwn(profiles, key) ? profiles[key] : undefined;
  if (profile === undefined && name === null) return null;
  if (isProfile(profile)) return profile;
  if (profile !== undefined) {
    throw new UsageError(`The profile ${quoteName(key)} in ${fileOf(directory)} is damaged; log in again`);
  }
  const names = Object.keys(profiles);
  const near = nearest(key, names);
  const known = excerpt(names.join(', ')) || 'none';
  const remedy = near === null ? "'remote-app login' makes one" : `did you mean ${quoteName(near)}?`;
  throw new UsageError(`No profile ${quoteName(key)} (there are: ${known}); ${remedy}`);
}

/** The profiles that can be read, by name. */
export const listProfiles = (directory: string): { readonly name: string; readonly server: string }[] =>
  Object.entries(readAll(directory)).flatMap(([name, profile]) =>
    isProfile(profile) ? [{ name, server: profile.server }] : [],
  );

/**
 * Writes a profile that only its owner can read.
 * @param again advice if the file cannot be written
 * @returns the file that contains the profile
 * @throws UsageError for a damaged file; WriteError
 */
export function writeProfile(
  directory: string,
  name: string,
  profile: Profile,
  again = 'log in again',
): string {
  const file = fileOf(directory);
  editPrivate(file, () => ({ profiles: { ...readAll(directory), [name]: profile } }), again);
  return file;
}
