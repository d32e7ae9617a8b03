/** An app of a repository, as `--apps` and the engine name it: `owner/name[@revision][:app]`. */
export interface RepositoryName {
  /** `owner/name`. */
  readonly repository: string;
  /** A branch, a tag or a commit. */
  readonly revision: string;
  /** The folder of the app; null for an app at the top of the repository. */
  readonly folder: string | null;
}

/** The branch that is meant where no revision is named. */
export const defaultRevision = 'main';

const form = /^([^/@:]+\/[^/@:]+)(?:@([^:]+))?(?::([^:]+))?$/;

/** As the hub has them. They become directory names, and the engine gets them as an argument: none begins with `-`. */
const repositoryPart = /^\w(?:[\w.-]{0,94}\w)?$/;
const revisionPart = /^\w[\w.+-]*$/;
const folderName = /^(?!\.{1,2}$)[\w.][\w.+-]{0,254}$/;

const isRepository = (text: string): boolean =>
  text.split('/').every((part) => repositoryPart.test(part)) && !/--|\.\./.test(text);

/** A branch may have slashes, as in `refs/pr/1`. */
const isRevision = (text: string): boolean =>
  text.length <= 255 && text.split('/').every((part) => revisionPart.test(part)) && !text.includes('..');

/** The app that a text names; null where it names no app of a repository. */
export function readRepositoryName(text: string): RepositoryName | null {
  const [, repository = '', revision = defaultRevision, folder = null] = form.exec(text) ?? [];
  if (!isRepository(repository) || !isRevision(revision)) return null;
  return folder === null || folderName.test(folder) ? { repository, revision, folder } : null;
}
