import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { hubSettings } from '../../../src/server/hub/index.js';
import { plant, temporary } from '../../support/temporary.js';

describe('the settings of the hub', () => {
  test.each([
    [{}, '/home/me/.cache/huggingface/hub'],
    [{ XDG_CACHE_HOME: '/caches' }, '/caches/huggingface/hub'],
    [{ HF_HOME: '/hf', XDG_CACHE_HOME: '/caches' }, '/hf/hub'],
    [{ HF_HOME: '~/hf' }, '/home/me/hf/hub'],
    [{ HF_HOME: '$DATA/hf', DATA: '/data' }, '/data/hf/hub'],
    [{ HUGGINGFACE_HUB_CACHE: '/old', HF_HOME: '/hf' }, '/old'],
    [{ HF_HUB_CACHE: '$' + '{DATA}/models', HUGGINGFACE_HUB_CACHE: '/old', DATA: '/data' }, '/data/models'],
  ])('The settings of the hub use the same cache directory as Python: %j', (environment, cache) => {
    expect(hubSettings({ HOME: '/home/me', ...environment }).cache).toBe(cache);
  });

  test.each([
    ['1', true],
    ['ON', true],
    ['yes', true],
    ['True', true],
    ['0', false],
    ['', false],
    ['2', false],
  ])('The settings of the hub with HF_HUB_OFFLINE=%s are offline: %s', (value, isOffline) => {
    expect(hubSettings({ HOME: '/h', HF_HUB_OFFLINE: value }).isOffline).toBe(isOffline);
  });

  test('The settings of the hub take the token from the environment, or else from the file that a login writes, even later', async () => {
    await using directory = await temporary();
    const HF_HOME = path.join(directory.path, 'hf');
    const settings = hubSettings({ HOME: '/h', HF_HOME });
    expect(settings.token()).toBe(null);
    mkdirSync(HF_HOME);
    writeFileSync(path.join(HF_HOME, 'token'), 'hf_file\n');
    expect(settings.token()).toBe('hf_file');
    expect(hubSettings({ HOME: '/h', HF_HOME, HF_TOKEN: ' hf_given\n' }).token()).toBe('hf_given');
    expect(hubSettings({ HOME: '/h', HF_HOME, HF_HUB_DISABLE_IMPLICIT_TOKEN: '1' }).token()).toBe(null);
    const elsewhere = path.join(directory.path, 'secret');
    writeFileSync(elsewhere, 'hf_other');
    expect(hubSettings({ HOME: '/h', HF_HOME, HF_TOKEN_PATH: elsewhere }).token()).toBe('hf_other');
  });

  test('The settings of the hub accept an address without its trailing slash, and refuse what is not an address', () => {
    expect(hubSettings({ HOME: '/h' }).endpoint).toBe('https://huggingface.co');
    expect(hubSettings({ HOME: '/h', HF_ENDPOINT: 'https://mirror.example/hf//' }).endpoint).toBe(
      'https://mirror.example/hf',
    );
    for (const HF_ENDPOINT of ['mirror', 'ftp://mirror.example']) {
      expect(() => hubSettings({ HOME: '/h', HF_ENDPOINT })).toThrow(/HF_ENDPOINT/);
    }
  });
});

test.each([
  [{ TRANSFORMERS_OFFLINE: '1' }, { isOffline: true }],
  [{ TRANSFORMERS_OFFLINE: '1', HF_HUB_OFFLINE: '0' }, { isOffline: false }],
  [{}, { isOffline: false }],
  [{ HF_HUB_CACHE: '$NONE/$HOME/x' }, { cache: path.resolve('$NONE/h/x') }],
])('With %j the settings of the hub are %j', (environment, settings) => {
  expect(hubSettings({ HOME: 'h', ...environment })).toMatchObject(settings);
});

test('The newer variable wins over the older one, and a blank token counts as missing', async () => {
  await using directory = await temporary();
  const root = directory.path;
  await plant(root, { token: ' \n' });
  const tokenOf = (environment: NodeJS.ProcessEnv) =>
    hubSettings({ HOME: '/h', HF_HOME: root, ...environment }).token();
  expect(tokenOf({ HUGGING_FACE_HUB_TOKEN: 'old' })).toBe('old');
  expect(tokenOf({ HUGGING_FACE_HUB_TOKEN: 'old', HF_TOKEN: 'new' })).toBe('new');
  expect([tokenOf({}), tokenOf({ HF_TOKEN: ' ' })]).toEqual([null, null]);
});
