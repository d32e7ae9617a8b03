import type { ListedFile } from '../../archive/index.js';
import type { Obstacles } from './entries.js';
import { type Candidate, type Followed, verdictOn } from './leaving.js';

/** What is sent of a directory: of a data set, or of a store of Zarr. */
export interface Tree {
  /** Files, and empty directories. */
  readonly files: readonly ListedFile[];
  /** Paths in stores that their metadata do not describe: they are not sent. */
  readonly strays: readonly string[];
  /** Links that were followed out of it. */
  readonly followed: readonly Followed[];
}

/** Collects what is sent of a directory. */
export class TreeReader implements Tree {
  readonly files: ListedFile[] = [];
  readonly strays: string[] = [];
  readonly followed: Followed[] = [];

  /** @param root the real path of the directory */
  constructor(
    protected readonly root: string,
    protected readonly obstacles: Obstacles,
  ) {}

  /** Whether something in it leaves; what does not is an obstacle, unless its store can do without. */
  protected async leaves(candidate: Omit<Candidate, 'root'>): Promise<boolean> {
    const verdict = await verdictOn({ ...candidate, root: this.root });
    if (!verdict.leaves) {
      if (candidate.isImplied === false) this.strays.push(candidate.path);
      else this.obstacles.add(candidate.path, verdict.why);
    } else if (verdict.target !== null) this.followed.push({ path: candidate.path, target: verdict.target });
    return verdict.leaves;
  }
}
