/** An app in its own folder, as in KonfAI's repositories. */
export const manifest = (more: Readonly<Record<string, unknown>> = {}): string =>
  JSON.stringify({
    display_name: 'Synthetic CT',
    description: 'Makes a CT of an MR',
    short_description: 'MR to CT',
    tta: 2,
    mc_dropout: 0,
    models: ['CV_0.pt', 'CV_1.pt'],
    inputs: { Volume_0: { display_name: 'MR', volume_type: 'VOLUME', required: true } },
    ...more,
  });

export const repository = 'VBoussot/ImpactSynth';

const prediction = 'Predictor:\n  Dataset:\n    Patch:\n      patch_size: [1, 256, 256]\n';

/** Weights that are large enough to arrive in several pieces. */
export const weights = Buffer.from(Array.from({ length: 300_000 }, (_, index) => index % 251));

/** The files of a repository with two apps. */
export const files: Readonly<Record<string, string | Buffer>> = {
  '.gitattributes': '*.pt filter=lfs diff=lfs merge=lfs -text\n',
  'README.md': '# ImpactSynth\n',
  'MR/app.json': manifest(),
  'MR/Prediction.yml': prediction,
  'MR/Uncertainty.yml': 'Evaluator: {}\n',
  'MR/Model/net.py': 'depth = 3\n',
  'MR/CV_0.pt': weights,
  'MR/CV_1.pt': Buffer.from('second weights'),
  'CBCT/app.json': manifest({ display_name: 'From CBCT' }),
};
