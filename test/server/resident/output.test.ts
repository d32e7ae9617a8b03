import { expect, test } from 'vitest';
import { lacks } from '../../support/needs.mjs';
import { TestServer } from '../../support/server.js';
import { doing, type Language, ownLines, writtenApp } from './support.js';

/** Lines that each job prints: more than twice what a pipe holds. */
const count = 30_000;

/**
 * Apps that print numbers on stdout and stderr, and answer at once. The one in JavaScript takes one stream for each job: Node may
 * write the rest of a line after a line of the other stream.
 */
const programs: readonly (readonly [Language, string])[] = [
  [
    'javascript',
    `import { serve } from './resident.mjs';
const ways = [console.log, console.error];
await serve(async () => {}, async () => {
  const print = ways.shift();
  for (let line = 1; line <= ${count}; line += 1) print(String(line));
});`,
  ],
  [
    'python',
    `import sys, resident
def run(model, arguments):
    for line in range(1, ${count} + 1):
        print(line, file=sys.stdout if line % 2 else sys.stderr)
resident.serve(lambda: None, run)`,
  ],
  [
    'shell',
    `exec 4>"$REMOTE_APP_ANSWERS" 3>&-
echo '{"ready": true}' >&4
while read -r line; do
  job=\${line#*\\"job\\":\\"}
  seq ${count} 4>&-
  echo "{\\"job\\": \\"\${job%%\\"*}\\", \\"exit_code\\": 0}" >&4
done`,
  ],
];

for (const [language, program] of programs) {
  const title = `the log has all that a job in ${language} printed before its answer`;
  test.skipIf(language === 'python' && lacks('python3'))(title, async () => {
    await using own = await writtenApp(language, program);
    await using server = await TestServer.start({ runners: true, apps: [own.app], app: 'resident' });
    const expected = Array.from({ length: count }, (_, line) => line + 1);
    for (const start of ['cold', 'warm']) {
      const { view, log } = await server.api.run('infer', doing());
      expect(view).toMatchObject({ status: 'done', start });
      const numbers = ownLines(log).slice(0, -1).map(Number);
      expect(numbers).toHaveLength(count);
      expect(numbers.sort((a, b) => a - b)).toEqual(expected);
    }
  });
}
