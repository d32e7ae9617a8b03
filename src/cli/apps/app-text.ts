import type { AppAnswer, AvailableAppAnswer } from '../../client/connection/answer-schemas.js';
import { checkpointsOf } from '../../client/connection/checkpoints.js';
import { excerpt } from '../../contract/quote.js';
import { formatPairs } from '../terminal/format.js';

const capabilityNames = ['inference', 'evaluation', 'uncertainty'] as const;

function capabilities(app: AvailableAppAnswer): string {
  const names: string[] = capabilityNames.filter((_, index) => app.has_capabilities[index]);
  return [...names, ...(app.finetunable ? ['fine-tuning'] : [])].join(', ');
}

/** In the order in which an app takes them, by the names that a refused submission has for them. */
function volumes(volumes: AvailableAppAnswer['inputs']): string {
  return Object.entries(volumes)
    .map(([key, { display_name: name, volume_type: type, required }]) => {
      const more = [name && key, type, required === false && 'optional'].filter(Boolean).join(', ');
      return `${name || key} (${more})`;
    })
    .join(', ');
}

const atMost = (count: number | null): string | null => (count === null ? null : String(count));

/** Where an app of a repository comes from. */
const origin = ({ repository }: AvailableAppAnswer): string | null =>
  repository
    ? `${repository.name}, ${repository.revision}, at commit ${repository.commit.slice(0, 12)}`
    : null;

/** One app, one fact a line. */
export function describeApp(app: AppAnswer): string[] {
  if (!app.available) {
    return [excerpt(`${app.app} is not available: ${app.reason ?? 'its files cannot be read'}`)];
  }
  return formatPairs([
    ['App', app.app],
    ['Name', app.display_name],
    ['About', (app.short_description || app.description).trim().replaceAll(/\s+/g, ' ')],
    ['Can do', capabilities(app)],
    ['Inputs', volumes(app.inputs)],
    ['Outputs', volumes(app.outputs)],
    ['Checkpoints', checkpointsOf(app).join(', ') || null],
    ['TTA at most', atMost(app.maximum_tta)],
    ['MC dropout at most', atMost(app.mc_dropout)],
    ['Patch size', app.patch_size?.join(' x ') ?? null],
    ['Repository', origin(app)],
    ['Not updated', app.repository?.problem ?? null],
  ]);
}
