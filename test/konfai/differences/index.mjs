import { apps, servers } from './apps.mjs';
import { jobControl } from './job-control.mjs';
import { logs } from './logs.mjs';
import { submissions } from './submissions.mjs';

/**
 * What a client can see of their server and of ours, by subject. Each row is a line of the table in docs/konfai.md, and
 * a question that `npm run test:konfai` asks of both real servers: `probe` resolves with what is seen, or with
 * null where this machine cannot show it, and `seen` is what is expected of theirs and of ours.
 */
export const differences = {
  'Submitting a job': submissions,
  'Jobs and results': jobControl,
  Logs: logs,
  Apps: apps,
  'The server': servers,
};

const verdicts = { better: 'ours is better', same: 'same', purpose: 'on purpose' };

const line = ({ what, theirs, ours, verdict, why }) =>
  `| ${what} | ${theirs} | ${ours} | ${verdicts[verdict]}${why ? `: ${why}` : ''} |`;

/** The tables of docs/konfai.md. */
export const differencesPage = () =>
  Object.entries(differences)
    .map(([subject, rows]) =>
      [
        `### ${subject}`,
        '',
        '| what | their server | our server | verdict |',
        '| --- | --- | --- | --- |',
        ...rows.map(line),
      ].join('\n'),
    )
    .join('\n\n');
