import { expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService, jobId } from '../support/fake-service.js';
import { ScreenTerminal } from '../support/screen-terminal.js';
import { json } from '../support/scripted-server.js';

const own = { job_id: jobId, status: 'running', app: 'tissue', operation: 'infer', inputs: ['a.nii'] };
const earlier = [170, 180, 190, 600].map((run_seconds, index) => ({
  ...{ ...own, job_id: `job${index}`, status: 'done', run_seconds },
}));

test('On a terminal, jobs are listed with the newest last and fit the width', async () => {
  await using cli = await Cli.create();
  const input = 'sub-0123_ses-baseline_acq-highres_run-1_T1w.nii.gz';
  const jobs = [own, ...earlier].map((job) => ({ ...job, inputs: [input], tag: 'a-study-of-many-knees' }));
  await using server = await fakeService({
    override: ({ url }, response) => {
      if (!/^\/jobs(\?|$)/.test(url)) return false;
      json(response, 200, { jobs });
      return true;
    },
  });
  const args = ['jobs', '--server', server.url];
  await using terminal = new ScreenTerminal(cli, args, { columns: 80 });
  expect(await terminal.ended()).toBe(0);
  const [heading, ...rows] = terminal.rows.filter((row) => row !== '');
  expect(heading).toMatch(/^JOB /);
  // A line that does not fit would take two rows.
  expect(rows.map((row) => row.split(' ')[0])).toEqual(['job3', 'job2', 'job1', 'job0', jobId]);
  const { stdout } = await cli.run([...args, '-q']);
  expect(stdout.trim().split('\n')).toEqual([jobId, 'job0', 'job1', 'job2', 'job3']);
});
