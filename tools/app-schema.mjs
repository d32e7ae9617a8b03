/** The JSON Schema of an `app.json`, which editors use: what one should write. Unknown keys are allowed, as the server allows them. */
import { z } from 'zod';
import { appManifestSchema } from '../dist/server/apps/manifest-schema.js';

export function appSchema() {
  const { $schema, type, properties, required } = z.toJSONSchema(appManifestSchema, { io: 'input' });
  return {
    $schema,
    title: 'app.json of a remote-app app',
    description:
      'What the server and its clients show of an app, and the program that runs it: see docs/apps.md.',
    type,
    properties: {
      $schema: {
        type: 'string',
        description: 'Where this schema is, for editors; the server does not read it',
      },
      ...properties,
    },
    required,
  };
}
