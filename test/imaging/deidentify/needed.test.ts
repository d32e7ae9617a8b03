import { describe, expect, test } from 'vitest';
import { identityIn } from '../../../packages/volumes/src/identity/index.js';
import { workspace, write } from '../../../packages/volumes/test/written.js';
import { dicomFile, type Element, element } from '../../support/dicom-files.js';
import { cleaned, parsed, refusalOf } from './cleaned.js';

const given = { pixels: new Uint16Array(4), size: [2, 2] as const, position: [0, 0, 0] };
const mr = '1.2.840.10008.5.1.4.1.1.4';
const pet = '1.2.840.10008.5.1.4.1.1.128';

async function fileOf(more: readonly Element[], sopClass = mr, encoding = {}): Promise<string> {
  const all = [element(0x00080016, 'UI', sopClass), ...more];
  return write(await workspace(), 'scan.dcm', dicomFile({ ...given, more: all }, encoding));
}

const doubles = (...numbers: number[]) => Buffer.from(Float64Array.from(numbers).buffer);
const floats = (...numbers: number[]) => Buffer.from(Float32Array.from(numbers).buffer);

describe('values that an image needs', () => {
  test.each<[string, number, string, string]>([
    ['a slope of 19 digits', 0x00281053, 'DS', '0.30000000000000004'],
    ['a slope with an exponent', 0x00281053, 'DS', '3.05171124637127E-05'],
    ['an intercept', 0x00281052, 'DS', '-1024.0000000000001'],
    ['a spacing', 0x00280030, 'DS', '1.3000000000000003\\1.3000000000000003'],
    ['an orientation', 0x00200037, 'DS', '0.99999999999999989\\0\\0\\0\\0.99999999999999989\\0'],
    ['a position', 0x00200032, 'DS', '-122.74999999999999\\-8\\3'],
    ['a window', 0x00281050, 'DS', '40.00000000000000001'],
    ['a dose', 0x00181074, 'DS', '385000000.00000000000001'],
  ])('An image keeps %s, to the last digit', async (_, tag, vr, text) => {
    const set = parsed(await cleaned(await fileOf([element(tag, vr, text)], pet)));
    expect(set.string(`x${tag.toString(16).padStart(8, '0')}`)).toBe(text);
  });

  test.each<[string, Element, string?]>([
    ['RescaleSlope (0028,1053)', element(0x00281053, 'DS', '0,5')],
    ['RescaleSlope (0028,1053)', element(0x00281053, 'DS', '0.5 Bq')],
    ['RescaleIntercept (0028,1052)', element(0x00281052, 'DS', 'minus 1024')],
    ['PixelSpacing (0028,0030)', element(0x00280030, 'DS', '1,3\\1,3')],
    ['ImagePositionPatient (0020,0032)', element(0x00200032, 'DS', '0\\0\\x')],
    ['WindowCenter (0028,1050)', element(0x00281050, 'DS', '40,5')],
    ['RealWorldValueSlope (0040,9225)', element(0x00409225, 'FD', Buffer.alloc(6))],
    ['DiffusionBValue (0018,9087)', element(0x00189087, 'FD', Buffer.alloc(4))],
    ['PhotometricInterpretation (0028,0004)', element(0x00280004, 'CS', 'MEIER')],
    ['RadionuclideTotalDose (0018,1074)', element(0x00181074, 'DS', '385 MBq'), pet],
    ['Units (0054,1001)', element(0x00541001, 'CS', 'KBQML'), pet],
    ['DecayCorrection (0054,1102)', element(0x00541102, 'CS', 'YES'), pet],
    ['PatientWeight (0010,1030)', element(0x00101030, 'DS', '70 kg'), pet],
    ['AcquisitionTime (0008,0032)', element(0x00080032, 'TM', 'noon'), pet],
    ['B_value (0019,100C)', element(0x0019100c, 'IS', 'b1000')],
  ])('An image is refused if its value of %s is invalid', async (name, bad, sopClass = mr) => {
    const creator = element(0x00190010, 'LO', 'SIEMENS MR HEADER');
    const [refusal, sentence] = await refusalOf(await fileOf([creator, bad], sopClass));
    expect([refusal, sentence]).toEqual([
      'unreadable',
      `scan.dcm has a value of ${name} that cannot be read, and without it the image would be another: ` +
        'correct it, for example with dcmodify, or convert the scan to NIfTI and look at its values',
    ]);
  });
});

test('Radiotherapy and ultrasound images keep the size of their pixels', async () => {
  const portal = [
    element(0x30020002, 'SH', 'Meier'),
    element(0x30020011, 'DS', '0.392\\0.392'),
    element(0x30020012, 'DS', '-200.5\\200.5'),
    element(0x30020026, 'DS', '1500'),
  ];
  const set = parsed(await cleaned(await fileOf(portal, '1.2.840.10008.5.1.4.1.1.481.1')));
  expect(['x30020011', 'x30020012', 'x30020026', 'x30020002'].map((tag) => set.string(tag))).toEqual([
    '0.392\\0.392',
    '-200.5\\200.5',
    '1500',
    undefined,
  ]);
  const region = [element(0x0018602c, 'FD', doubles(0.02)), element(0x0018602e, 'FD', doubles(0.03))];
  const file = await fileOf([element(0x00186011, 'SQ', [region])], '1.2.840.10008.5.1.4.1.1.6.1');
  const item = parsed(await cleaned(file, 'ultrasound')).elements.x00186011?.items?.[0]?.dataSet;
  expect(['x0018602c', 'x0018602e'].map((tag) => item?.double(tag))).toEqual([0.02, 0.03]);
});

describe('private attributes', () => {
  test.each<[string, Element[], Readonly<Record<string, unknown>>]>([
    [
      'Siemens',
      [
        element(0x00190012, 'LO', 'SIEMENS MR HEADER'),
        element(0x0019120c, 'IS', '1000'),
        element(0x0019120e, 'FD', doubles(0.6, 0, -0.8)),
        element(0x001912aa, 'LO', 'Meier'),
      ],
      { x00190012: 'SIEMENS MR HEADER', x0019120c: '1000', x0019120e: [0.6, 0, -0.8], x001912aa: undefined },
    ],
    [
      'GE',
      [
        element(0x00430010, 'LO', 'GEMS_PARM_01'),
        element(0x00431039, 'IS', '1000001000\\8\\0\\0'),
        element(0x00431062, 'SH', 'Meier'),
      ],
      { x00430010: 'GEMS_PARM_01', x00431039: '1000001000\\8\\0\\0', x00431062: undefined },
    ],
    [
      'Philips, with the slope of its values',
      [
        element(0x20010010, 'LO', 'Philips Imaging DD 001'),
        element(0x20011003, 'FL', floats(800)),
        element(0x20050010, 'LO', 'Philips MR Imaging DD 001'),
        element(0x2005100e, 'FL', floats(0.25)),
      ],
      { x20011003: [800], x2005100e: [0.25] },
    ],
    [
      'Philips PET, with its scales',
      [
        element(0x70530010, 'LO', 'Philips PET Private Group'),
        element(0x70531000, 'DS', '0.000587'),
        element(0x70531009, 'DS', '1.8'),
      ],
      { x70531000: '0.000587', x70531009: '1.8' },
    ],
    [
      'Philips in each frame',
      [
        element(0x20050010, 'LO', 'Philips MR Imaging DD 005'),
        element(0x2005100f, 'SQ', [
          [
            element(0x00100010, 'PN', 'Meier'),
            element(0x20050010, 'LO', 'Philips MR Imaging DD 001'),
            element(0x2005100e, 'FL', floats(0.25)),
          ],
        ]),
      ],
      { 'x2005100f.0.x2005100e': [0.25], 'x2005100f.0.x00100010': undefined },
    ],
    [
      'another vendor at the same place, which says anything',
      [element(0x00190010, 'LO', 'MEIER'), element(0x0019100c, 'IS', '1000')],
      { x00190010: undefined, x0019100c: undefined },
    ],
  ])('Private attributes are sent only if an image needs them: those of %s', async (_, more, wanted) => {
    for (const isImplicit of [false, true]) {
      const bytes = await cleaned(await fileOf(more, mr, { isImplicit }));
      const set = parsed(bytes);
      const readBack = (path: string) => {
        const [sequence = '', , inner] = path.split('.');
        const items = set.elements[sequence]?.items;
        const [within, tag] = inner ? [items?.[0]?.dataSet, inner] : [set, path];
        const element = within?.elements[tag];
        if (element?.vr === 'FD')
          return Array.from({ length: element.length / 8 }, (_x, at) => within?.double(tag, at));
        if (element?.vr === 'FL')
          return Array.from({ length: element.length / 4 }, (_x, at) => within?.float(tag, at));
        return within?.string(tag);
      };
      expect(Object.fromEntries(Object.keys(wanted).map((tag) => [tag, readBack(tag)]))).toEqual(wanted);
      expect(bytes.includes('Meier') || bytes.includes('MEIER')).toBe(false);
      // A server that accepts only de-identified files takes this one.
      const sent = await write(await workspace(), 'sent.dcm', bytes);
      expect(await identityIn(sent, async () => {})).toEqual({ attributes: [], isWhole: true });
    }
  });

  test('A private sequence that names a person is found in a file that is not de-identified', async () => {
    const item = [element(0x00100010, 'PN', 'Meier')];
    const more = [element(0x20050010, 'LO', 'Philips MR Imaging DD 005'), element(0x2005100f, 'SQ', [item])];
    const found = await identityIn(await fileOf(more), async () => {});
    expect(found?.attributes).toEqual(['PatientName (0010,0010)']);
  });

  test('A private attribute is found in an item that does not say whose it is, whatever another item says', async () => {
    const known = [
      element(0x20050010, 'LO', 'Philips MR Imaging DD 001'),
      element(0x2005100e, 'FL', floats(0.25)),
    ];
    const more = [element(0x00081110, 'SQ', [known, [element(0x2005100e, 'LO', 'Meier')]])];
    const found = await identityIn(await fileOf(more), async () => {});
    expect(found?.attributes).toEqual(['private attribute (2005,100E)']);
  });

  test('The reference time of GE decay correction is shifted with the others', async () => {
    const more = [
      element(0x00080022, 'DA', '20240102'),
      element(0x00080030, 'TM', '101112'),
      element(0x00080032, 'TM', '101600'),
      element(0x00090010, 'LO', 'GEMS_PETD_01'),
      element(0x0009100d, 'DT', '20240102100000.00'),
    ];
    const set = parsed(await cleaned(await fileOf(more, pet)));
    const date = set.string('x00080022') ?? '';
    expect(date).not.toBe('20240102');
    expect([set.string('x00080032'), set.string('x0009100d')]).toEqual(['080448', `${date}074848.00`]);
  });

  /** A CSA header of Siemens with six items for each tag, as scanners write it. */
  const csa = (tags: Readonly<Record<string, readonly string[]>>) => {
    const int = (...numbers: number[]) => Buffer.from(Int32Array.from(numbers).buffer);
    const parts = Object.entries(tags).flatMap(([name, values]) => {
      const items = Array.from({ length: 6 }, (_, at) =>
        Buffer.from(at < values.length ? `${values[at]}\0` : ''),
      );
      const start = Buffer.alloc(84);
      start.write(name);
      start.write('LO', 68);
      int(0, 6, 77).copy(start, 72);
      const padded = items.map((each) => Buffer.concat([each, Buffer.alloc((4 - (each.length % 4)) % 4)]));
      return [
        start,
        ...items.flatMap((each, at) => [int(each.length, each.length, 77, each.length), padded[at] ?? each]),
      ];
    });
    return Buffer.concat([
      Buffer.from('SV10\u0004\u0003\u0002\u0001'),
      int(Object.keys(tags).length, 77),
      ...parts,
    ]);
  };
  const normal = { SliceNormalVector: ['0', '0.17364818', '0.98480775'] };
  const mosaic = (header: Buffer, type = 'ORIGINAL\\PRIMARY\\M\\ND\\MOSAIC') => [
    element(0x00080008, 'CS', type),
    element(0x00290010, 'LO', 'SIEMENS CSA HEADER'),
    element(0x00291010, 'OB', header),
  ];

  test('A mosaic keeps the numbers that distinguish its slices, and nothing else of its header', async () => {
    const header = csa({
      PatientName: ['Meier'],
      NumberOfImagesInMosaic: ['14'],
      ...normal,
      MosaicRefAcqTimes: ['0.00', '97.50'],
      B_value: ['Meier'],
    });
    const bytes = await cleaned(await fileOf(mosaic(header)));
    expect(bytes.includes('Meier')).toBe(false);
    for (const text of ['NumberOfImagesInMosaic\0', '14\0', 'SliceNormalVector\0', '0.98480775\0', '97.50\0'])
      expect(bytes.includes(text)).toBe(true);
    // dcm2niix reads the slice times correctly only if the number of slices comes first.
    expect(bytes.indexOf('MosaicRefAcqTimes')).toBeGreaterThan(bytes.indexOf('NumberOfImagesInMosaic'));
    const sent = await write(await workspace(), 'sent.dcm', bytes);
    expect(await identityIn(sent, async () => {})).toEqual({ attributes: [], isWhole: true });
    const given = await fileOf(mosaic(header));
    expect((await identityIn(given, async () => {}))?.attributes).toContain('private attribute (0029,1010)');
  });

  test.each<[string, Element[]]>([
    ['a header that cannot be read', mosaic(Buffer.alloc(400, 65))],
    ['a header without the normal of its slices', mosaic(csa({ NumberOfImagesInMosaic: ['14'] }))],
    [
      'a header that is cut short',
      mosaic(csa({ NumberOfImagesInMosaic: ['14'], ...normal }).subarray(0, 400)),
    ],
    ['no header', [element(0x00080008, 'CS', 'ORIGINAL\\PRIMARY\\VFRAME')]],
  ])('A mosaic is refused with %s', async (_, more) => {
    const [refusal, sentence] = await refusalOf(await fileOf(more));
    expect(refusal).toBe('mosaic');
    expect(sentence).toMatch(/^scan\.dcm is a mosaic, .* convert it to NIfTI, for example with dcm2niix/);
  });

  test('An image of diffusion is refused if only unknown private attributes may contain its b-value', async () => {
    const type = (text: string) => element(0x00080008, 'CS', text);
    const unknown = [element(0x00990010, 'LO', 'VENDOR'), element(0x00991001, 'IS', '1000')];
    const [original, map] = [type('ORIGINAL\\PRIMARY\\DIFFUSION'), type('DERIVED\\PRIMARY\\DIFFUSION\\ADC')];
    const [refusal, sentence] = await refusalOf(await fileOf([original, ...unknown]));
    expect([refusal, sentence]).toEqual([
      'diffusion',
      expect.stringMatching(/its b-value may be in private attributes/),
    ]);
    const standard = element(0x00189087, 'FD', doubles(1000));
    for (const more of [[original], [original, standard, ...unknown], [map, ...unknown]])
      expect(await refusalOf(await fileOf(more))).toEqual(['none', '']);
  });

  test('An image that is not a mosaic is sent without a header that cannot be read', async () => {
    const set = parsed(await cleaned(await fileOf(mosaic(Buffer.alloc(400, 65), 'ORIGINAL\\PRIMARY'))));
    expect(set.elements.x00291010).toBeUndefined();
  });
});
