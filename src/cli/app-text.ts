import type { AppView, AvailableApp } from '../contract/app-manifest.js';
import { formatPairs } from './format.js';

const capabilityNames = ['inference', 'evaluation', 'uncertainty'] as const;

function capabilities(app: AvailableApp): string {
  const names: string[] = capabilityNames.filter((_, index) => app.has_capabilities?.[index]);
  return [...names, ...(app.finetunable ? ['fine-tuning'] : [])].join(', ');
}

function volumes(volumes: AvailableApp['inputs'] | undefined): string {
  return Object.entries(volumes ?? {})
    .map(([name, volume]) => `${name} (${volume.volume_type}${volume.required ? '' : ', optional'})`)
    .join(', ');
}

/** One app, one fact a line. */
export function describeApp(app: AppView): string[] {
  if (!app.available) return [`${app.app} is not available: ${app.reason ?? 'its files cannot be read'}`];
  return formatPairs([
    ['App', app.app],
    ['Name', app.display_name],
    ['About', app.short_description || app.description],
    ['Can do', capabilities(app)],
    ['Inputs', volumes(app.inputs)],
    ['Outputs', volumes(app.outputs)],
    ['Checkpoints', app.checkpoints_name?.join(', ') ?? null],
    ['TTA at most', String(app.maximum_tta)],
    ['MC dropout at most', String(app.mc_dropout)],
    ['Patch size', app.patch_size?.join(' x ') ?? null],
  ]);
}
