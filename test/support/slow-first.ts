import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Directories whose tests wait for processes and so take long for their size. */
const slow = ['e2e', 'faults', 'python', 'server/executors', 'server/resident'].map(
  (each) => `/test/${each}/`,
);

/**
 * Vitest begins with what took longest; the first time, with the largest files, so that a small one that takes long would run
 * alone in the end.
 */
export default class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isSlow = ({ moduleId }: TestSpecification) => slow.some((each) => moduleId.includes(each));
    return [...sorted.filter(isSlow), ...sorted.filter((each) => !isSlow(each))];
  }
}
