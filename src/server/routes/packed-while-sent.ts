import { lstatSync } from 'node:fs';
import type { RouterContext } from '@koa/router';
import { countFiles, packTo } from '../../archive/index.js';
import { ServiceError } from '../../contract/index.js';
import { goneSignal } from '../http/index.js';
import type { Job } from '../jobs/index.js';
import type { Report } from '../report.js';
import { setArchiveHeaders } from './archive-headers.js';

/** Packs a job's output while it is sent. Its length is not known, so ranges are not served. */
async function sendOutput(ctx: RouterContext, job: Job, report: Report): Promise<void> {
  const { id, directory } = job;
  setArchiveHeaders(ctx);
  ctx.res.setHeader('Accept-Ranges', 'none');
  if (ctx.method === 'HEAD') {
    ctx.res.end();
    return;
  }
  const signal = goneSignal(ctx);
  ctx.res.once('finish', () => job.noteFetched());
  await packTo(ctx.res, directory.output, { openUp: true, signal }).catch((cause) => {
    // A normal end would look like the end of the archive.
    ctx.res.destroy();
    if (!ctx.req.socket.destroyed) report(`The output of job ${id} could not be sent`, cause);
  });
}

/** Whether the output directory is there, and not replaced by a link or a file. */
const hasOutput = ({ directory }: Job): boolean =>
  lstatSync(directory.output, { throwIfNoEntry: false })?.isDirectory() ?? false;

/**
 * Sends a result that has no archive: the disk had no room for it, or it was removed or replaced.
 * @throws ServiceError `expired` if its files are not there any more
 */
export async function sendUnpacked(ctx: RouterContext, job: Job, report: Report): Promise<void> {
  if (!hasOutput(job)) {
    throw new ServiceError('expired', `The result of job ${job.id} is removed; submit it again`);
  }
  await sendOutput(ctx, job, report);
}

/** Sends what a job that has failed left in its output. @throws ServiceError `nothingLeft` */
export async function sendLeft(ctx: RouterContext, job: Job, report: Report): Promise<void> {
  if (!hasOutput(job) || (await countFiles(job.directory.output, 1)) === 0) {
    throw new ServiceError('nothingLeft', `Job ${job.id} left no file in its output`);
  }
  await sendOutput(ctx, job, report);
}
